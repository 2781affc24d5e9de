/**
 * The types of columns, and the fields by which relations join. A client has them only in the text of its schema. At
 * set-up, they are compared with a model.
 */
import { InvalidInputError } from '@eaas/sdk'
import { refuseUnbindable, type SealedTable, type StoredColumn, spellUuid } from '@eaas/sdk/adapter'

/** What the schema says about a model's columns. */
export interface ModelTypes {
  provider: string
  native: ReadonlyMap<string, string>
  /** The fields that refer to another model, by relation field. */
  references: ReadonlyMap<string, readonly Reference[]>
  defaults: ReadonlyMap<string, Default>
  ids: readonly string[]
  /** The fields of each `@@unique` and `@@id`, by its name in conditions. */
  uniques: ReadonlyMap<string, readonly string[]>
  filled: ReadonlySet<string>
  /** The fields that are lists, such as a relation to many rows. */
  lists: ReadonlySet<string>
  optional: ReadonlySet<string>
  /** How many characters `@db.VarChar(…)` and the like hold, by field. */
  lengths: ReadonlyMap<string, number>
  /** The schema of the database, after `@@schema`, or the one that the driver's adapter names. */
  schema: string | undefined
}

/** The function in `@default`, such as `uuid(7)`. */
export type Default = { name: string; argument: string }

/** A field, and the field of another model whose value it has. */
export type Reference = { own: string; other: string }

/** The databases that compare text byte by byte. MySQL and SQL Server ignore case, accents and trailing spaces. */
const COMPARE_BYTES = ['postgresql', 'postgres', 'cockroachdb', 'sqlite']
/** The types with one spelling for each value: the adapter spells `Uuid`; `CiText` and `Char` are not among them. */
const EXACT = [undefined, 'Text', 'VarChar', 'String', 'Uuid']

type Config = { inlineSchema?: unknown; activeProvider?: unknown; adapter?: { options?: { schema?: unknown } } }

/** Matches texts and comments, so that their content is not read as attributes. */
const TEXT_OR_COMMENT = /"(?:[^"\\\n]|\\.)*"|\/\/[^\n]*|\/\*[\s\S]*?\*\//g
/** Matches the blanks that Prisma permits within a type and an attribute. */
const BLANKS = /[ \t]+(?=[(?[\],:)])|(?<=[([,:])[ \t]+/g

/** Reads the types of a client's schema, by model; none if the client does not have its text. */
export function readTypes(client: object): Map<string, ModelTypes> {
  const { _engineConfig: config } = client as { _engineConfig?: Config }
  const schema = config?.adapter?.options?.schema
  const read = () => createTypes(String(config?.activeProvider), typeof schema === 'string' ? schema : undefined)
  const texts: string[] = []
  const lines = String(config?.inlineSchema ?? '')
    .replaceAll(TEXT_OR_COMMENT, (found) => (found[0] === '"' ? `"${texts.push(found.slice(1, -1)) - 1}"` : ''))
    .replaceAll(BLANKS, '')
    .split('\n')
  const out = new Map<string, ModelTypes>()
  let types = read()
  for (const line of lines) {
    const [, model] = /^\s*(?:model|view)\s+(\w+)\s*\{/.exec(line) ?? []
    if (model !== undefined || line.trim() === '}') types = read() // an enum and the like are not read
    if (model !== undefined) out.set(model, types)
    readField(line, types)
    readBlock(line, types, texts)
  }
  return out
}

function createTypes(provider: string, schema: string | undefined) {
  return {
    provider,
    native: new Map<string, string>(),
    references: new Map<string, readonly Reference[]>(),
    defaults: new Map<string, Default>(),
    ids: [] as string[],
    uniques: new Map<string, readonly string[]>(),
    filled: new Set<string>(),
    lists: new Set<string>(),
    optional: new Set<string>(),
    lengths: new Map<string, number>(),
    schema,
  }
}

function readField(line: string, types: ReturnType<typeof createTypes>): void {
  const [, field = '', , mark, attributes = ''] = /^\s*(\w+)\s+\w+(\("\d+"\))?(\[\]|\?)?(.*)/.exec(line) ?? []
  if (field === '') return
  if (mark === '[]') types.lists.add(field)
  if (mark === '?') types.optional.add(field)
  if (/@id\b/.test(attributes)) types.ids.push(field)
  const [, native, characters] = /@db\.(\w+)(?:\((\d+)\))?/.exec(attributes) ?? []
  if (native !== undefined) types.native.set(field, native)
  if (characters !== undefined && native?.endsWith('Char')) types.lengths.set(field, Number(characters))
  const [filled, name, argument = ''] = /@default\((?:value:)?(?:(\w+)\(([^)]*)\))?/.exec(attributes) ?? []
  if (filled !== undefined) types.filled.add(field)
  if (name !== undefined) types.defaults.set(field, { name, argument })
  const [, relation] = /@relation\((.*)/.exec(attributes) ?? []
  const fieldsOf = (member: string) => new RegExp(`\\b${member}:\\[([^\\]]*)\\]`).exec(relation ?? '')?.[1]?.split(',')
  const others = fieldsOf('references')
  const own = fieldsOf('fields')
  if (!own || !others) return
  const pairs = own.map((one, at) => ({ own: one, other: others[at] ?? '' }))
  types.references.set(field, pairs)
}

function readBlock(line: string, types: ReturnType<typeof createTypes>, texts: readonly string[]): void {
  const [, schema] = /^\s*@@schema\((?:map:)?"(\d+)"\)/.exec(line) ?? []
  if (schema !== undefined) types.schema = texts[Number(schema)]
  const [, kind, among] = /^\s*@@(unique|id)\(.*?\[([^\]]*)\]/.exec(line) ?? []
  if (among === undefined) return
  const fields = among.replaceAll(/\([^)]*\)/g, '').split(',')
  if (kind === 'id') types.ids.push(...fields)
  const [, name] = /\bname:"(\d+)"/.exec(line) ?? []
  types.uniques.set(texts[Number(name)] ?? fields.join('_'), fields)
}

/** Tells whether the database makes the value of a field that has this default. */
export function isMadeByDatabase({ name }: Default): boolean {
  return ['autoincrement', 'dbgenerated', 'sequence'].includes(name)
}

/** The databases that pad these types with spaces, and return the padding. */
const FILL_UP = ['postgresql', 'postgres', 'sqlserver']
const FILLED_UP = ['Char', 'NChar']

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
  const text = value.replace(/ +$/, '') // excess spaces are cut off
  return text + ' '.repeat(Math.max(0, (types.lengths.get(field) ?? 1) - [...text].length))
}

/** Tells whether a database finds a field's values only in the spelling in which it returns them. */
export function isExact(types: ModelTypes | undefined, field: { name: string; type: string; kind: string }): boolean {
  if (field.kind === 'enum' || field.type === 'Int' || field.type === 'BigInt') return true
  const { provider = '', native } = types ?? {}
  return field.type === 'String' && COMPARE_BYTES.includes(provider) && EXACT.includes(native?.get(field.name))
}

type Field = { name: string; type: string }

/** For each kind of stored value: the types of Prisma that hold it, and a hint. */
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
