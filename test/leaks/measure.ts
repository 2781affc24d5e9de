// What somebody learns who has a table with local indexes and a list of everybody who may be in it, but no key: how many rows can be named.
import { readFileSync } from 'node:fs'
import { decodeHex, encodeBase64 } from '../../packages/protocol/src/index.js'
import { createClient, type Fetch, text } from '../../packages/sdk/src/index.js'
import vectors from '../../packages/sdk/src/models/local-index.vectors.json' with { type: 'json' }
import { nameRows } from './known-rows.js'

const keyId = '00000000-0000-4000-8000-000000000001'

interface Setting {
  name: string
  indexes: Record<
    string,
    { prefix: 'name'; length: number } | { ngram: 'name'; length: number; bits: number; acceptLeakage: true }
  >
  whole?: { bits?: number }
}
const SETTINGS: Setting[] = [
  { name: 'whole value', whole: {}, indexes: {} },
  { name: 'whole value, `bits: 6`', whole: { bits: 6 }, indexes: {} },
  { name: 'prefix of 1', indexes: { p: { prefix: 'name', length: 1 } } },
  { name: 'prefix of 3', indexes: { p: { prefix: 'name', length: 3 } } },
  {
    name: 'prefixes of 1, 2, 3 and 4',
    indexes: Object.fromEntries([1, 2, 3, 4].map((length) => [`p${length}`, { prefix: 'name', length }])),
  },
  ...[256, 16, 12, 10, 8, 6].map((bits) => ({
    name: `parts of 3, \`bits: ${bits}\``,
    indexes: { g: { ngram: 'name', length: 3, bits, acceptLeakage: true } } as const,
  })),
]

/** A client whose index secret is always the same, so that each run gives the same columns. */
function fixedClient() {
  const answer = ({ op }: { op: string }) =>
    op.startsWith('index')
      ? { secret: encodeBase64(decodeHex(vectors.key)), key_id: keyId }
      : { wrapped_key: 'AAAA', key_id: keyId, key_version: 1 }
  const fetch = async (url: string, { body }: { body?: unknown }) => {
    const op = /([\w-]+)$/.exec(url)?.[1] ?? ''
    if (op !== 'batch') return Response.json(answer({ op }))
    const { operations } = JSON.parse(String(body)) as { operations: { op: string }[] }
    return Response.json({ results: operations.map((one) => ({ status: 200, body: answer(one) })) })
  }
  return createClient({ baseUrl: 'https://eaas.test', apiKey: 'x', fetch: fetch as Fetch })
}

/** What the attacker sees of a row, for each column: how many rows have each of its values, as logarithms, most frequent first. */
type Profile = number[][]

/** Of a value that one of two rows lacks. */
const LACKING = Math.log(0.1)

function profilesOf(rows: readonly string[][][]): Profile[] {
  const counts: Map<string, number>[] = []
  for (const row of rows) {
    for (const [column, values] of row.entries()) {
      counts[column] ??= new Map()
      for (const value of values) counts[column].set(value, (counts[column].get(value) ?? 0) + 1)
    }
  }
  return rows.map((row) =>
    row.map((values, column) => values.map((value) => Math.log(counts[column]?.get(value) ?? 0)).sort((a, b) => b - a)),
  )
}

/** The distance between two profiles, or infinity if it is greater than `most`. */
function distance(one: Profile, other: Profile, most = Number.POSITIVE_INFINITY): number {
  let sum = 0
  for (const [column, a] of one.entries()) {
    const b = other[column] ?? []
    for (let at = 0; at < Math.max(a.length, b.length); at++) {
      sum += Math.abs((a[at] ?? LACKING) - (b[at] ?? LACKING))
      if (sum > most) return Number.POSITIVE_INFINITY
    }
  }
  return sum
}

/** The share of rows whose profile is nearest to that of exactly one person on the list, who is the right one. */
function namedShare(seen: readonly Profile[], known: readonly Profile[]): number {
  let named = 0
  for (const [at, profile] of seen.entries()) {
    const own = distance(profile, known[at] ?? [])
    if (known.every((one, other) => other === at || distance(profile, one, own) > own)) named++
  }
  return named / seen.length
}

/** The parts of a name as the attacker knows them: those that the index would hash. */
function knownParts(name: string, { indexes }: Setting): string[][] {
  const characters = [...name.trim().toLowerCase()]
  const columns = Object.values(indexes).map((index) =>
    'prefix' in index
      ? [characters.slice(0, index.length).join('')]
      : [
          ...new Set(
            Array.from({ length: Math.max(1, characters.length - index.length + 1) }, (_, at) =>
              characters.slice(at, at + index.length).join(''),
            ),
          ),
        ],
  )
  return columns.length > 0 ? columns : [[characters.join('')]]
}

export interface Measured {
  setting: string
  /** Of the rows, those that have a name: as a share. */
  named: number
  /** Rows that a search finds on average, and how many of them are right. */
  found: number
  right: number
}

async function measure(names: readonly string[]): Promise<Measured[]> {
  const eaas = fixedClient()
  const results: Measured[] = []
  for (const setting of SETTINGS) {
    const { whole, indexes } = setting
    const model = eaas.model({
      name: 'people',
      keyId,
      bind: false,
      warn: false,
      fields: { name: text({ normalize: ['trim', 'lowercase'], ...(whole && { index: 'w', ...whole }) }) },
      indexes,
    })
    const rows = (await model.encryptMany(names.map((name) => ({ name })))) as Record<string, unknown>[]
    const columns = [...(whole ? ['w'] : []), ...Object.keys(indexes)]
    const table = rows.map((row) => columns.map((column) => [row[column]].flat() as string[]))
    const known = profilesOf(names.map((name) => knownParts(name, setting)))
    const search = async (name: string) => {
      const part = [...name.trim()].slice(0, 5).join('')
      const kind = whole ? name : columns[0] === 'g' ? { contains: part } : { startsWith: part }
      const query = (await model.index({ name: kind } as never)) as Record<string, string | string[]>
      const asked = Object.entries(query).map(([column, values]) => [columns.indexOf(column), [values].flat()] as const)
      const hits = names.filter((_, at) =>
        asked.every(([column, values]) => values.every((value) => table[at]?.[column]?.includes(value))),
      )
      return [hits.length, hits.filter((hit) => model.matches({ name: hit }, { name: kind } as never)).length] as const
    }
    const searches = await Promise.all(
      names.filter((name, at) => at % 10 === 0 && [...name.trim()].length >= 5).map(search),
    )
    const mean = (which: 0 | 1) => searches.reduce((sum, one) => sum + one[which], 0) / searches.length
    results.push({ setting: setting.name, named: namedShare(profilesOf(table), known), found: mean(0), right: mean(1) })
  }
  eaas.close()
  return results
}

/** The cells of a column. RFC 4180, with the line ends of either file. */
function readColumn(path: string, name: string): string[] {
  const text = readFileSync(new URL(path, import.meta.url), 'utf8')
  const rows: string[][] = [[]]
  for (const [, quoted, plain = '', end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n)/g)) {
    rows.at(-1)?.push(quoted?.replaceAll('""', '"') ?? plain)
    if (end !== ',') rows.push([])
  }
  const [header = [], ...cells] = rows
  return cells.flatMap((row) => row[header.indexOf(name)] ?? [])
}

const ATTACKED_BITS = [6, 8, 12]
const KNOWN_ROWS = [0, 3]
const SHORT_LIST = 100

/** The share of the rows that the attacker does not know and then names: an index of parts of 3. */
async function attackedShare(names: readonly string[], bits: number, knownRows: number): Promise<number> {
  const eaas = fixedClient()
  const indexes = { parts: { ngram: 'name', length: 3, bits, acceptLeakage: true } } as const
  const fields = { name: text({ normalize: ['trim', 'lowercase'] }) }
  const model = eaas.model({ name: 'people', keyId, bind: false, fields, indexes })
  const rows = await model.encryptMany(names.map((name, number) => ({ name, number })))
  eaas.close()
  rows.sort((a, b) => (a.parts.join() < b.parts.join() ? -1 : 1)) // the order of the table tells nothing
  const rowOf = new Map(rows.map(({ number }, row) => [number, row]))
  const spread = Array.from({ length: knownRows }, (_, at) => Math.floor(((at + 0.5) * names.length) / knownRows))
  const known = new Map(spread.map((number) => [number, rowOf.get(number) ?? 0]))
  const list = names.map((name) => knownParts(name, { name: '', indexes })[0] ?? [])
  const given = nameRows(
    rows.map(({ parts }) => parts),
    list,
    known,
  )
  const right = given.filter((row, number) => !known.has(number) && rowOf.get(number) === row)
  return right.length / (names.length - known.size)
}

/** Returns the lines of the page on the attack that learns tokens, in Markdown: for a short list, and for the whole one. */
export async function measureAttack(whole: boolean): Promise<string> {
  const names = readColumn('legislators.csv', 'full_name')
  const list = whole ? names : names.slice(0, SHORT_LIST)
  const lines: string[] = []
  for (const known of KNOWN_ROWS) {
    const cells = [String(list.length), String(known)]
    for (const bits of ATTACKED_BITS) cells.push(`${Math.round((await attackedShare(list, bits, known)) * 100)} %`)
    lines.push(`| ${cells.join(' | ')} |`)
  }
  return lines.join('\n')
}

/** Returns the table of the page, in Markdown. */
export async function measureAll(): Promise<string> {
  const customers = await measure(
    readColumn('../../examples/data/customers.csv', 'full_name').filter((name) => name.trim() !== ''),
  )
  const legislators = await measure(readColumn('legislators.csv', 'full_name'))
  const share = (value = 0) => `${Math.round(value * 100)} %`
  const rows = customers.map((one, at) => {
    const other = legislators[at]
    const found = (of: Measured | undefined) => `${of?.found.toFixed(1)} (${of?.right.toFixed(1)})`
    return `| ${one.setting} | ${share(one.named)} | ${share(other?.named)} | ${found(one)} | ${found(other)} |`
  })
  return [
    '| index of the name | rows named: 1,200 customers | rows named: 537 legislators | rows a search finds (right): customers | legislators |',
    '|---|---|---|---|---|',
    ...rows,
  ].join('\n')
}
