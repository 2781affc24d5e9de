/**
 * The types of columns, and the fields by which relations join. A Prisma client has them only in the text of its
 * schema.
 */
import { spellUuid } from '@eaas/sdk/adapter'

/** What the columns of a model are in the database. */
export interface ModelTypes {
  provider: string
  /** The type after `@db.`, by field. */
  native: ReadonlyMap<string, string>
  /** The fields that refer to another model, by the field of the relation. */
  references: ReadonlyMap<string, readonly Reference[]>
  /** The function in `@default`, by field. */
  defaults: ReadonlyMap<string, Default>
  /** The fields of `@id` or `@@id`. */
  ids: readonly string[]
  /** The fields of each `@@unique` and `@@id`, by the name that it has in conditions. */
  uniques: ReadonlyMap<string, readonly string[]>
  /** The fields with a default of any kind. */
  filled: ReadonlySet<string>
  /** The fields that are lists, such as the relation to many rows. */
  lists: ReadonlySet<string>
  /** The fields that may be null. */
  optional: ReadonlySet<string>
  /** How many characters `@db.VarChar(…)` and the like hold, by field. */
  lengths: ReadonlyMap<string, number>
  /** The schema of the database, after `@@schema`, or the one that the driver's adapter names. */
  schema?: string | undefined
}

/** The function in `@default`, such as `uuid(7)`. */
export interface Default {
  name: string
  argument: string
}

/** A field, and the field of another model whose value it has. */
export interface Reference {
  own: string
  other: string
}

/**
 * The databases that compare text by its bytes. MySQL and SQL Server ignore case, accents and trailing spaces by
 * default.
 */
const COMPARE_BYTES = ['postgresql', 'postgres', 'cockroachdb', 'sqlite']
/**
 * The types whose values are found in one spelling; `Uuid` is spelled by the adapter. `CiText` and `Char` are
 * not among them.
 */
const EXACT = [undefined, 'Text', 'VarChar', 'String', 'Uuid']

/** What the adapter reads of a client's configuration. */
interface Config {
  inlineSchema?: unknown
  activeProvider?: unknown
  adapter?: { options?: { schema?: unknown } }
}

/** Reads the types of a client's schema, by model; none if the client does not have its text. */
export function readTypes(client: object): Map<string, ModelTypes> {
  const { _engineConfig: config } = client as { _engineConfig?: Config }
  const out = new Map<string, ModelTypes>()
  const provider = String(config?.activeProvider)
  const ofAdapter = config?.adapter?.options?.schema
  let native = new Map<string, string>()
  let references = new Map<string, readonly Reference[]>()
  let defaults = new Map<string, Default>()
  let ids: string[] = []
  let uniques = new Map<string, readonly string[]>()
  let filled = new Set<string>()
  let lists = new Set<string>()
  let optional = new Set<string>()
  let lengths = new Map<string, number>()
  let last: ModelTypes | undefined
  for (const line of String(config?.inlineSchema ?? '').split('\n')) {
    const bare = line.replaceAll(/"(?:[^"\\]|\\.)*"/g, '""').replace(/\/\/.*/, '')
    const [, model] = /^\s*(?:model|view)\s+(\w+)\s*\{/.exec(bare) ?? []
    if (model !== undefined || bare.trim() === '}') {
      native = new Map()
      references = new Map()
      defaults = new Map()
      ids = []
      uniques = new Map()
      filled = new Set()
      lists = new Set()
      optional = new Set()
      lengths = new Map()
    }
    if (model !== undefined) {
      last = {
        provider,
        native,
        references,
        defaults,
        ids,
        uniques,
        filled,
        lists,
        optional,
        lengths,
        schema: typeof ofAdapter === 'string' ? ofAdapter : undefined,
      }
      out.set(model, last)
    }
    const [, schema] = /^\s*@@schema\("([^"]+)"\)/.exec(line) ?? []
    if (schema !== undefined && last) last.schema = schema
    const [, list] = /^\s*(\w+)\s+\w+\[\]/.exec(bare) ?? []
    if (list !== undefined) lists.add(list)
    const [, nullable] = /^\s*(\w+)\s+\w+\?/.exec(bare) ?? []
    if (nullable !== undefined) optional.add(nullable)
    const [, short, characters] = /^\s*(\w+)\s.*@db\.\w*Char\((\d+)\)/.exec(bare) ?? []
    if (short !== undefined) lengths.set(short, Number(characters))
    const [, id] = /^\s*(\w+)\s.*\s@id\b/.exec(bare) ?? []
    if (id !== undefined) ids.push(id)
    const [, kind, among] = /^\s*@@(unique|id)\(.*?\[([^\]]*)\]/.exec(bare) ?? []
    if (among !== undefined) {
      const fields = among.replaceAll(/\([^)]*\)/g, '').split(',')
      const names = fields.map((one) => one.trim())
      if (kind === 'id') ids.push(...names)
      const [, own = names.join('_')] = /\bname:\s*"([^"]+)"/.exec(line) ?? []
      uniques.set(own, names)
    }
    const [, withDefault] = /^\s*(\w+)\s.*@default\(/.exec(bare) ?? []
    if (withDefault !== undefined) filled.add(withDefault)
    const [, called, name, argument = ''] = /^\s*(\w+)\s.*@default\((\w+)\(([^)]*)\)/.exec(bare) ?? []
    if (called !== undefined && name !== undefined) defaults.set(called, { name, argument: argument.trim() })
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

/** Tells whether the database makes the value of a field that has this default. */
export function isMadeByDatabase({ name }: Default): boolean {
  return ['autoincrement', 'dbgenerated', 'sequence'].includes(name)
}

/** The databases that pad a shorter text of these types with spaces, and return it so. */
const FILL_UP = ['postgresql', 'postgres', 'sqlserver']
const FILLED_UP = ['Char', 'NChar']

/** Spells a value as the database returns it, if the column's type says how. */
export function spell(
  types: ModelTypes | undefined,
  field: { name: string; type: string } | undefined,
  value: unknown,
): unknown {
  const { name = '' } = field ?? {}
  const native = types?.native.get(name) ?? ''
  if (native === 'Uuid') return spellUuid(value)
  if (FILLED_UP.includes(native) && typeof value === 'string') return fillUp(types, name, value)
  const isWhole = field?.type === 'Int' || field?.type === 'BigInt'
  return isWhole && typeof value === 'string' && /^\s*[+-]?\d+\s*$/.test(value) ? BigInt(value) : value
}

function fillUp(types: ModelTypes | undefined, field: string, value: string): string {
  if (!types || !FILL_UP.includes(types.provider)) return value
  const text = value.replace(/ +$/, '') // more spaces than fit are cut off
  return text + ' '.repeat(Math.max(0, (types.lengths.get(field) ?? 1) - [...text].length))
}

/** Tells whether a database finds the values of a field only in the spelling in which it returns them. */
export function isExact(types: ModelTypes | undefined, field: { name: string; type: string; kind: string }): boolean {
  if (field.kind === 'enum' || field.type === 'Int' || field.type === 'BigInt') return true
  const { provider = '', native } = types ?? {}
  return field.type === 'String' && COMPARE_BYTES.includes(provider) && EXACT.includes(native?.get(field.name))
}
