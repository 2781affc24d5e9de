/** Makes errors about values of a model's rows name the model and, for a stored row, the values that identify it. */
import { isEaasError, nameRecord } from '../errors.js'
import type { Row } from '../input.js'
import { getAt } from '../records/paths.js'
import type { Definition } from './definition.js'

/** The longest text of a column that a message shows. */
const MAX_SHOWN = 64

/** Names the model of an error about a value, and the row where it is given. Returns the same error. */
export function named<E>(error: E, definition: Definition, row?: Row): E {
  return isEaasError(error)
    ? nameRecord(error, { model: definition.name, row: row && tellRow(definition, row) })
    : error
}

/** Runs what reads a row, and names the row in its error. */
export function naming<T>(definition: Definition, row: Row | undefined, run: () => T): T {
  try {
    return run()
  } catch (error) {
    throw named(error, definition, row)
  }
}

/**
 * The values that identify a row, by their columns: those of `bind` or, without `bind`, `id`. Undefined if the row
 * has none of them.
 */
function tellRow({ bind, names }: Definition, row: Row): Readonly<Record<string, string>> | undefined {
  const columns = bind.length > 0 ? bind : names.has('id') ? [] : [{ name: 'id', path: ['id'] }]
  const told = columns.flatMap(({ name, path }) => {
    const value = getAt(row, path)
    const isTold = value !== '' && ['string', 'number', 'bigint'].includes(typeof value)
    return isTold ? [[name, shorten(String(value))]] : []
  })
  return told.length > 0 ? (Object.fromEntries(told) as Record<string, string>) : undefined
}

function shorten(text: string): string {
  return text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text
}
