/** What the adapters for ORMs refuse, in one sentence each, so that no query silently works on ciphertext. */
import { InvalidInputError } from '../errors.js'

/** Advice where an index finds more rows than match: they are opened and filtered, which SQL cannot do. */
export function searchHint(where: string): string {
  return `${where} In place of \`or\`, read by each condition and join the rows; write or join by their ids. Or filter the rows after they are decrypted.`
}

/** Refuses what the database cannot do with an encrypted field. @throws InvalidInputError */
export function refuseField(model: string, field: string, message: string, hint: string): never {
  throw new InvalidInputError(`${model}.${field} is encrypted: ${message}`, hint)
}

/** Refuses to sort or group rows by an encrypted field. @throws InvalidInputError */
export function refuseOrder(model: string, field: string): never {
  const hint = 'Sort the rows after they are decrypted. To group equal values, group by the column of its index.'
  refuseField(model, field, 'the database cannot sort or group by it', hint)
}

/** Refuses a comparison that no index can make. @throws InvalidInputError */
export function refuseOperator(
  model: string,
  field: string,
  operator: string,
  hint = 'Search for equal values, or filter the rows after they are decrypted.',
): never {
  refuseField(model, field, `the database cannot compare it by ${JSON.stringify(operator)}`, hint)
}

/** Refuses an SQL expression that contains an encrypted field. @throws InvalidInputError */
export function refuseExpression(
  model: string,
  field: string,
  hint = 'Select it by itself, and compute with it after it is decrypted. To join by it, compare the columns of its indexes.',
): never {
  refuseField(model, field, 'it cannot be part of an expression in SQL', hint)
}

/** Used also for a column that encrypted values are bound to. */
export function refuseComputed(model: string, column: string): never {
  const hint = 'Give its value, so that it can be encrypted or bound to before it is stored.'
  throw new InvalidInputError(`${model}.${column}: the database cannot compute its value`, hint)
}

/** Rows of such a search are filtered only after they are opened. */
export function refuseCount(): never {
  refuseCall('to count or sum the rows of a search that finds more than match', 'Select the rows, and count them.')
}

/** Refuses a part of an ORM's interface that an adapter does not cover. @throws InvalidInputError */
export function refuseCall(call: string, hint: string): never {
  throw new InvalidInputError(`${call} is not supported where fields are encrypted`, hint)
}

/** Refuses to bind values to a column whose value is not known before the insert. */
export function refuseUnbindable(model: string, column: string, why: string, hint: string): never {
  throw new InvalidInputError(`${model}: values cannot be bound to ${column}: ${why}`, hint)
}

/** Refuses to bind values to a `generated always as identity` column whose value the ORM cannot insert. */
export function refuseAlways(model: string, column: string, hint: string): never {
  refuseUnbindable(model, column, 'the database makes it, and takes no value for it', hint)
}
