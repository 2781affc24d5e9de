/** The fields that `encryptMany` and `decryptMany` are given by name: checked, copied and found in each record. */
import type { Pace } from '../async/pace.js'
import { InvalidInputError, type RecordPlace } from '../errors.js'
import { assertNotAborted, isName, kindOf, type Row } from '../input.js'
import type { Path } from './paths.js'
import { copyRows } from './plain-rows.js'
import { createPresence, type PresenceOptions, type RecordField } from './presence.js'

export interface CheckOptions {
  fields: readonly RecordField[]
  optional: readonly string[]
  pace: Pace
  signal: AbortSignal | undefined
}

/** Refuses names that are none, or that stand there twice. @throws InvalidInputError */
export function assertFields(fields: unknown, optional: unknown): asserts fields is readonly string[] {
  if (!Array.isArray(fields) || fields.length === 0) throw new InvalidInputError('fields must name at least one field')
  if (!fields.every(isName)) throw new InvalidInputError('fields must hold names of fields')
  if (new Set(fields).size < fields.length) throw new InvalidInputError('fields must name each field once')
  if (!Array.isArray(optional))
    throw new InvalidInputError(`optional must be an array of names, got ${kindOf(optional)}`)
  const unknown = optional.find((name) => !fields.includes(name))
  if (unknown !== undefined) {
    throw new InvalidInputError(`optional names ${JSON.stringify(unknown)}, which is not in fields`)
  }
}

/** Copies of all records, from which the fields are read. @throws InvalidInputError */
export function copyNamed(records: unknown, fields: readonly string[], toStore: boolean): Row[] {
  return copyRows(records, { paths: pathsOf(fields), toStore })
}

/** Where fields of these names may be: a name with dots may be a column, too. */
function pathsOf(names: readonly string[]): Path[] {
  return names.flatMap((name) => (name.includes('.') ? [[name], name.split('.')] : [[name]]))
}

/** Checks that the records have the fields, and runs the function for each value. */
export async function checkPresence(
  rows: readonly Row[],
  { pace, signal, ...options }: CheckOptions & PresenceOptions,
  check?: (row: Row, value: unknown, place: RecordPlace) => void,
): Promise<void> {
  const presence = createPresence(options)
  for (const [index, row] of rows.entries()) {
    if (pace.due()) {
      await pace.rest()
      assertNotAborted(signal)
    }
    for (const field of options.fields) {
      const value = presence.read(row, field, index)
      check?.(row, value, { index, field: field.name })
    }
  }
  presence.end()
}
