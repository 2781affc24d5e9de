/** What seals, opens and indexes rows for adapters, loaded for the first of them. */
import { type Definition, pickFields } from './definition.js'
import type { AccessRows } from './model-access.js'
import type { createModelRows } from './model-rows.js'
import type { ModelDeps } from './model-types.js'

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
