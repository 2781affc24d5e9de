/** Compares the fields of a Prisma schema with a model, at set-up. */
import { InvalidInputError } from '@eaas/sdk'
import { refuseUnbindable, type SealedTable, type StoredColumn } from '@eaas/sdk/adapter'
import type { ModelTypes } from './types.js'

type Field = { name: string; type: string }

/** For each kind of stored value: the types of Prisma that hold it, and what to write. */
const HOLDS: Readonly<Record<StoredColumn['holds'], readonly [types: readonly string[], hint: string]>> = {
  json: [['Json'], "Use Json, or give the model format: 'text'."],
  text: [['String', 'Json'], 'Use String, of MySQL with @db.LongText, or Json for values that are not text.'],
  index: [['String'], 'Use String?.'],
  parts: [['String[]'], 'Use String[].'],
}
/** The length of an index's hash. A sealed value is longer than any text of `SHORT` characters. */
const HASH_CHARACTERS = 64
const SHORT = 255
/** The length of `String` on MySQL, if the schema names no type. */
const MYSQL_STRING = 191

/**
 * @throws InvalidInputError if a field cannot hold what the model stores in it, or has a default, or if a row may lack
 * a value of `bind`
 */
export function assertFields(
  name: string,
  { stored, bind }: SealedTable,
  { fields, types }: { fields: readonly Field[]; types: ModelTypes | undefined },
): void {
  for (const { column, holds } of stored) {
    const field = fields.find((one) => one.name === column)
    const type = types?.lists.has(column) ? `${field?.type}[]` : field?.type
    const own = types?.native.get(column)
    const length = types?.lengths.get(column) ?? (types?.provider === 'mysql' && !own ? MYSQL_STRING : undefined)
    const needed = holds === 'index' ? HASH_CHARACTERS : SHORT + 1
    const [allowed, hint] = HOLDS[holds]
    const isShort = type === 'String' && length !== undefined && length < needed
    if (types?.filled.has(column))
      throw new InvalidInputError(
        `the field ${JSON.stringify(column)} of the model ${name} has a default, which would be stored in plaintext`,
        'Take the default away, and give the value in the rows that have it.',
      )
    // Without the text of the schema, a list looks like one value.
    if (!isShort && (allowed.includes(String(type)) || (!types && holds === 'parts'))) continue
    throw new InvalidInputError(
      `the field ${JSON.stringify(column)} of the model ${name} is ${type}${isShort ? ` of ${length} characters` : ''}, which does not hold what is stored in it`,
      hint,
    )
  }
  for (const field of bind) {
    if (types?.optional.has(field)) {
      const why = 'it may be null, so that a row without it compiles'
      refuseUnbindable(name, field, why, 'Take the question mark off its type.')
    }
  }
}
