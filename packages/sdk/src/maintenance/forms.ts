/** The form in which each value of a row is stored, found without opening it, and the counts for a table. */
import { wrappingVersion } from '@eaas/protocol'
import { isEaasError } from '../errors.js'
import { isMissing, type Row } from '../input.js'
import { readEnvelopeAt } from '../models/compact-rows.js'
import { type Definition, type PlacedField, SEAL_FIELD } from '../models/definition.js'
import type { IndexColumn } from '../models/index-columns.js'
import { looksSealed } from '../models/plain-texts.js'
import { isIndexColumn } from '../records/blocks.js'
import { getAt } from '../records/paths.js'
import { assertPath } from '../records/plain-rows.js'
import { spellingsOf } from '../records/spellings.js'

/** How many values of a field have each form. Those of `oldVersion` and `formerKey` also count as `v1` or `v2`. */
export interface FieldCounts {
  empty: number
  /** Not an envelope: plaintext, or what another library encrypted. */
  plaintext: number
  /** Envelopes of format v1, bound to nothing, and bundles of server mode. */
  v1: number
  v2: number
  /** Wrapped under an old version of their key: `rewrap` renews them. */
  oldVersion: number
  formerKey: number
  /** Damaged, or under a key that is not the model's; or the field's path leads into something that is not an object. */
  unreadable: number
}

export interface IndexCounts {
  empty: number
  present: number
  /** Null although the fields have values, so that searches do not find the row. */
  missing: number
  other: number
  /** Differs from the index that the fields have now; counted only if rows are opened. */
  wrong: number
}

export interface TableCounts {
  rows: number
  /** Rows that still need some work: a value or an index is not as the model stores it now. */
  left: number
  fields: Record<string, FieldCounts>
  indexes: Record<string, IndexCounts>
}

type Found = { form: 'empty' | 'plaintext' | 'v1' | 'v2' | 'unreadable'; isOld: boolean; isFormer: boolean }

export interface RowForms {
  /** The row's seal, the only envelope of a row without values; undefined if the model does not seal whole rows. */
  seal: Found | undefined
  fields: ReadonlyMap<string, Found>
  indexes: ReadonlyMap<string, Exclude<keyof IndexCounts, 'wrong'>>
}

export type Versions = ReadonlyMap<string, number>

export function createCounts({ fields, columns }: Definition): TableCounts {
  const field = () => ({ empty: 0, plaintext: 0, v1: 0, v2: 0, oldVersion: 0, formerKey: 0, unreadable: 0 })
  const index = () => ({ empty: 0, present: 0, missing: 0, other: 0, wrong: 0 })
  return {
    rows: 0,
    left: 0,
    fields: Object.fromEntries(fields.map(({ name }) => [name, field()])),
    indexes: Object.fromEntries(columns.map(({ column }) => [column, index()])),
  }
}

export function readForms(definition: Definition, row: Row, versions: Versions): RowForms {
  const { columns, rowSeal } = definition
  const fields = new Map(definition.fields.map((field) => [field.name, formOf(definition, row, field, versions)]))
  return {
    seal: rowSeal ? formOf(definition, row, SEAL_FIELD, versions) : undefined,
    fields,
    indexes: new Map(columns.map((column) => [column.column, indexFormOf(column, row, fields)])),
  }
}

export function countForms(counts: TableCounts, definition: Definition, forms: RowForms): void {
  counts.rows++
  if (isUnsealed(definition, forms) || lacksIndex(forms) || isOldVersion(forms)) counts.left++
  for (const [name, { form, isOld, isFormer }] of forms.fields) {
    const field = counts.fields[name]
    if (!field) continue
    field[form]++
    if (isOld) field.oldVersion++
    if (isFormer) field.formerKey++
  }
  for (const [column, form] of forms.indexes) {
    const index = counts.indexes[column]
    if (index) index[form]++
  }
}

export function isUnsealed({ envelope }: Definition, forms: RowForms): boolean {
  if (forms.seal?.form === 'empty' || isUnreadable(forms)) return true
  return [...forms.fields.values()].some(
    ({ form, isFormer }) => isFormer || form === 'plaintext' || (form === 'v1' && envelope === 2),
  )
}

export function lacksIndex({ indexes }: RowForms): boolean {
  return [...indexes.values()].some((form) => form === 'missing' || form === 'other')
}

export function isOldVersion({ fields, seal }: RowForms): boolean {
  return seal?.isOld || [...fields.values()].some(({ isOld }) => isOld)
}

/** Tells whether the row may contain something unreadable, such as a wrapped key of an old version. */
export function isUnreadable({ fields, seal }: RowForms): boolean {
  if (seal && seal.form !== 'empty' && seal.form !== 'v2') return true // a seal has no other form
  return [...fields.values()].some(({ form }) => form === 'unreadable')
}

function formOf(definition: Definition, row: Row, { name, path }: PlacedField, versions: Versions): Found {
  const found = (form: Found['form'], isOld = false, isFormer = false) => ({ form, isOld, isFormer })
  try {
    assertPath(row, path, 0)
    const value = getAt(row, path)
    if (isMissing(value)) return found('empty')
    if (!looksSealed(value)) return found('plaintext')
    const place = { index: 0, field: name }
    const parts = readEnvelopeAt(row, path, definition.header, place)
    const { commitment, key_id } = parts
    if (!definition.keyIds.has(key_id) || (commitment && definition.envelope === 1)) return found('unreadable')
    const isOld = wrappingVersion(parts) < (versions.get(key_id) ?? 0)
    // A value without the client's secret is sealed again, like one under a former key.
    const lacksSecret = definition.hasSecret && commitment !== undefined && !parts.needsSecret
    return found(commitment ? 'v2' : 'v1', isOld, lacksSecret || key_id !== definition.keyOf({}, 0))
  } catch (error) {
    if (!isEaasError(error)) throw error
    return found('unreadable')
  }
}

function indexFormOf(column: IndexColumn, row: Row, fields: RowForms['fields']): Exclude<keyof IndexCounts, 'wrong'> {
  if (!isMissing(row[column.column])) return isIndexColumn(row, column) ? 'present' : 'other'
  return column.fields.some(({ name }) => fields.get(name)?.form === 'empty') ? 'empty' : 'missing'
}

type Library = { name: string; reader: string; beginning: RegExp }

/** AWS: version 1 and type (01 80) or version 2 (02), with the whole algorithm suite. Pasted text may have quotes. */
const LIBRARIES = {
  cloak: { name: '@47ng/cloak', reader: 'cloakReader', beginning: /^[\s\p{C}"']*v1\.aesgcm256\./u },
  transit: { name: 'Transit of Vault', reader: 'transitReader', beginning: /^[\s\p{C}"']*vault:v\d+:/u },
  aws: {
    name: 'the AWS Encryption SDK',
    reader: 'awsMessageReader',
    beginning: /^[\s\p{C}"']*A(?:YA[A-D](?:F[A-P]|R[g-v]|e[A-P]|[FRe]?$)|gR4|gV4)/u,
  },
} as const satisfies Record<string, Library>

/** Returns a value as its library writes it, without encodings around it; undefined if it does not begin so. */
export function spelledAs(library: keyof typeof LIBRARIES, stored: unknown): string | undefined {
  return spellingsOf(stored).findLast((text) => LIBRARIES[library].beginning.test(text))
}

export function findLibrary(stored: unknown): Library | undefined {
  const texts = spellingsOf(stored)
  return Object.values(LIBRARIES).find(({ beginning }) => texts.some((text) => beginning.test(text)))
}
