/** Some fields of a model: see `pick`, `encryptPartial` and `decryptPartial` of `Model`. */
import { InvalidInputError } from '../errors.js'
import type { Row } from '../input.js'
import { getAt } from '../records/paths.js'
import type { Definition, RowFormat } from './definition.js'

/**
 * Returns a definition of some fields, with the indexes that are made only of these. @throws InvalidInputError for
 * an unknown one
 */
export function pickFields(definition: Definition, names: readonly string[]): Definition {
  const isPicked = ({ name }: { name: string }) => names.includes(name)
  const fields = definition.fields.filter(isPicked)
  const unknown = names.find((name) => !fields.some((field) => field.name === name))
  if (unknown !== undefined) throw new InvalidInputError(`the model has no field ${JSON.stringify(unknown)}`)
  const columns = definition.columns.filter((column) => column.fields.every(isPicked))
  return { ...definition, fields, columns, whole: definition.whole ?? definition }
}

/** What is made of which fields. */
interface Parts<F> {
  fields: readonly F[]
  columns: readonly { column: string; fields: readonly F[] }[]
  format: RowFormat
  rowSeal: boolean
}

/**
 * Finds another field that must be written with the picked ones: a compact row, or one with a seal, is written as a
 * whole, and an index is made of all its fields.
 */
export function findLacking<F extends { name: string }>(
  { fields, columns, format, rowSeal }: Parts<F>,
  isPicked: (field: F) => boolean,
): { field: string; message: string } | undefined {
  if (!fields.some(isPicked)) return undefined
  const other = fields.find((field) => !isPicked(field))
  if (rowSeal && other) return { field: other.name, message: 'a row with a seal is written as a whole' }
  if (format === 'compact' && other) return { field: other.name, message: 'a compact row is sealed as a whole' }
  for (const { column, fields: parts } of columns) {
    const lacking = parts.find((part) => !isPicked(part))
    if (lacking && parts.some(isPicked))
      return { field: lacking.name, message: `the index ${JSON.stringify(column)} needs it too` }
  }
  return undefined
}

/** Lets each field that may be missing take null too, as databases store it. With `all`, every field may be missing. */
export function withNull<F extends { spec: { missing: readonly (null | undefined)[] } }>(
  fields: readonly F[],
  all = false,
): F[] {
  return fields.map((field) => {
    const missing = all || field.spec.missing.length > 0 ? [null, undefined] : []
    return { ...field, spec: { ...field.spec, missing } }
  })
}

/** Picks the fields that a row has. Null stands for no value in each of them that may be missing. */
export function pickPresent(definition: Definition, row: Row): Definition {
  const present = definition.fields.filter(({ path }) => getAt(row, path) !== undefined)
  const picked = pickFields(
    definition,
    present.map(({ name }) => name),
  )
  const fields = picked.fields.map(({ spec, ...field }) => ({
    ...field,
    spec: { ...spec, missing: spec.missing.map(() => null) },
  }))
  return { ...picked, fields }
}
