/**
 * The types of columns, and the fields by which relations join. A Prisma client has no data of them, only the
 * text of its schema.
 */
import { spellUuid } from '@eaas/sdk/adapter'

/** What the columns of a model are in the database. */
export interface ModelTypes {
  provider: string
  /** The type after `@db.`, by field. */
  native: ReadonlyMap<string, string>
  /** The fields that refer to another model, by the field of the relation. */
  references: ReadonlyMap<string, readonly Reference[]>
}

/** A field, and the one of another model whose value it has. */
export interface Reference {
  own: string
  other: string
}

/**
 * The databases that compare text by its bytes. MySQL and SQL Server ignore case, accents and trailing
 * spaces, if not told otherwise.
 */
const COMPARE_BYTES = ['postgresql', 'postgres', 'cockroachdb', 'sqlite']
/**
 * The types whose values are found in one spelling; `Uuid` is spelled by the adapter. `CiText` and `Char` are
 * not among them.
 */
const EXACT = [undefined, 'Text', 'VarChar', 'String', 'Uuid']

/** Reads the types of a client's schema, by model; of none where the client does not have its text. */
export function readTypes(client: object): Map<string, ModelTypes> {
  const { _engineConfig: config } = client as { _engineConfig?: { inlineSchema?: unknown; activeProvider?: unknown } }
  const out = new Map<string, ModelTypes>()
  const provider = String(config?.activeProvider)
  let native = new Map<string, string>()
  let references = new Map<string, readonly Reference[]>()
  for (const line of String(config?.inlineSchema ?? '').split('\n')) {
    const bare = line.replaceAll(/"(?:[^"\\]|\\.)*"/g, '""').replace(/\/\/.*/, '')
    const [, model] = /^\s*(?:model|view)\s+(\w+)\s*\{/.exec(bare) ?? []
    if (model !== undefined || bare.trim() === '}') {
      native = new Map()
      references = new Map()
    }
    if (model !== undefined) out.set(model, { provider, native, references })
    const [, field, type] = /^\s*(\w+)\s.*@db\.(\w+)/.exec(bare) ?? []
    if (field !== undefined && type !== undefined) native.set(field, type)
    const [, relation, fields = '', others = ''] =
      /^\s*(\w+)\s.*@relation\(.*\bfields:\s*\[([^\]]*)\].*\breferences:\s*\[([^\]]*)\]/.exec(bare) ?? []
    if (relation !== undefined) references.set(relation, pairsOf(fields, others))
  }
  return out
}

function pairsOf(fields: string, others: string): Reference[] {
  const names = (list: string) => list.split(',').map((name) => name.trim())
  return names(fields).map((own, at) => ({ own, other: names(others)[at] ?? '' }))
}

/** Spells a value as the database returns it, where the column's type says how. */
export function spell(
  types: ModelTypes | undefined,
  field: { name: string; type: string } | undefined,
  value: unknown,
): unknown {
  if (types?.native.get(field?.name ?? '') === 'Uuid') return spellUuid(value)
  const isWhole = field?.type === 'Int' || field?.type === 'BigInt'
  return isWhole && typeof value === 'string' && /^\s*[+-]?\d+\s*$/.test(value) ? BigInt(value) : value
}

/** Whether a database finds the values of a field in one spelling only, in which it returns them. */
export function isExact(types: ModelTypes | undefined, field: { name: string; type: string; kind: string }): boolean {
  if (field.kind === 'enum' || field.type === 'Int' || field.type === 'BigInt') return true
  const { provider = '', native } = types ?? {}
  return field.type === 'String' && COMPARE_BYTES.includes(provider) && EXACT.includes(native?.get(field.name))
}
