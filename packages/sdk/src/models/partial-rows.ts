/** Some fields of rows: which must be written together, which a row has, and how adapters seal and open them. */
import { InvalidInputError } from '../errors.js'
import type { Row } from '../input.js'
import { assertNoLookalike } from '../records/lookalikes.js'
import { getAt } from '../records/paths.js'
import { assertPath } from '../records/plain-rows.js'
import { type Definition, isCompactFormat, type PlacedField, pickFields, type RowFormat } from './definition.js'
import type { AccessRows } from './model-access.js'
import type { createModelRows } from './model-rows.js'
import type { ModelDeps } from './model-types.js'

interface Parts<F> {
  fields: readonly F[]
  columns: readonly { column: string; fields: readonly F[] }[]
  format: RowFormat
  rowSeal: boolean
}

export function findLacking<F extends { name: string }>(
  { fields, columns, format, rowSeal }: Parts<F>,
  isPicked: (field: F) => boolean,
): { field: string; message: string } | undefined {
  if (!fields.some(isPicked)) return undefined
  const other = fields.find((field) => !isPicked(field))
  if (rowSeal && other) return { field: other.name, message: 'a row with a seal is written as a whole' }
  if (isCompactFormat(format) && other) return { field: other.name, message: 'a compact row is sealed as a whole' }
  for (const { column, fields: parts } of columns) {
    const lacking = parts.find((part) => !isPicked(part))
    if (lacking && parts.some(isPicked))
      return { field: lacking.name, message: `the index ${JSON.stringify(column)} needs it too` }
  }
  return undefined
}

/** Refuses plaintext in fields that were not picked, and a stale index. @throws InvalidInputError */
export function assertPicked(definition: Definition, whole: Definition, row: Row, index: number) {
  const { fields, columns, names } = definition
  const isPicked = ({ name }: PlacedField) => fields.some((field) => field.name === name)
  const others = whole.fields.filter((field) => !isPicked(field))
  const refuse = (field: string, message: string) => {
    const hint = 'Give what belongs together, such as all fields of a sealed row.'
    throw new InvalidInputError(message, hint, { index, field })
  }
  for (const field of others) {
    assertPath(row, field.path, index)
    if (getAt(row, field.path) !== undefined) refuse(field.name, 'it was not picked, but has a value')
    assertNoLookalike(row, field, names, index)
  }
  const lacking = findLacking(whole, isPicked)
  if (lacking) refuse(lacking.field, lacking.message)
  const stale = whole.columns.find(
    (one) => row[one.column] !== undefined && !columns.some(({ column }) => column === one.column),
  )
  if (stale) refuse(stale.column, 'the index of a field that was not picked')
}

/** Picks the fields that a row has. In a field that may be missing, null stands for no value. */
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

export function createAccess(deps: ModelDeps, definition: Definition, createRows: typeof createModelRows): AccessRows {
  const rowsOf = (some: Definition) => createRows(deps, some, definition)
  return {
    seal(list, fields) {
      const sealing = { ...definition, fields: withNull(definition.fields) }
      return rowsOf(fields ? pickFields(sealing, fields) : sealing).seal(list, {})
    },
    async open(list, fields) {
      const picked = pickFields(definition, fields)
      const opening = { ...picked, fields: withNull(picked.fields, true), columns: [] }
      const { ok, failed } = await rowsOf(opening).open(list, {})
      if (failed[0]) throw failed[0].error
      return ok
    },
    index: (query, signal) => rowsOf(definition).hash(query, signal),
  }
}

/** Lets each field that may be missing also take null, as databases store it. With `all`, every field may be missing. */
export function withNull<F extends { spec: { missing: readonly (null | undefined)[] } }>(
  fields: readonly F[],
  all = false,
): F[] {
  return fields.map((field) => {
    const missing = all || field.spec.missing.length > 0 ? [null, undefined] : []
    return { ...field, spec: { ...field.spec, missing } }
  })
}
