// Mutants of the server: each has one part left out of one of its MACs, by a patch of the text of its source.
import { readFileSync } from 'node:fs'
import databaseGuards from './database-guards.json' with { type: 'json' }
import guards from './guards.json' with { type: 'json' }

const AUDIT = new URL('../../../packages/server/src/core/audit/', import.meta.url)

/** What is authenticated, and the function that writes its parts into an array. */
const SEALED = [
  { what: 'entry', file: '../../../../audit/src/formats/chain.ts', writer: 'entryText' },
  { what: 'head', file: 'formats/chain.ts', writer: 'headMac' },
  { what: 'mark', file: 'formats/chain.ts', writer: 'purgeMarkMac' },
  { what: 'tenants', file: 'formats/row-mac.ts', writer: 'tenantMac' },
  { what: 'keys', file: 'formats/row-mac.ts', writer: 'keyMac' },
  { what: 'key_versions', file: 'formats/row-mac.ts', writer: 'keyVersionMac' },
  { what: 'api_keys', file: 'formats/row-mac.ts', writer: 'apiKeyMac' },
] as const

/**
 * The server writes the same bytes of an entry in two parts when it appends entries. In a mutant it does so by the function without the column,
 * so that the server finds its own entries genuine.
 */
const APPENDER = 'formats/chain.ts'
const APPENDED = 'textHash(hash, before + id + after)'
const APPENDED_WHOLE =
  'entryHash(hash, { tenant_id, id, action, key_id, key_version, actor, ip_address, metadata, created_at })'

/** `tenant_id`, `entry.tenant_id`, `encodeHex(row.tenant_id)`; a label, in capitals, is no part */
const PART = /^\s*(?:\w+\()?(?:\w+\.)?([a-z_]+)\)?\s*$/

export type Sealed = (typeof SEALED)[number]['what']

export interface Mutant {
  what: Sealed
  /** the column that is left out */
  column: string
  /** the texts of the patched files, by their paths from packages/server/src/core/audit */
  files: Readonly<Record<string, string>>
}

/** Every mutant there is: one for each part of each array that is authenticated. */
export function listMutants(): Mutant[] {
  return SEALED.flatMap(({ what, file, writer }) => {
    const text = readFileSync(new URL(file, AUDIT), 'utf8')
    const body = text.indexOf('{\n', text.indexOf(`export function ${writer}(`))
    const from = text.indexOf('[', body) + 1
    const to = text.indexOf('])', from)
    const elements = text.slice(from, to).split(',')
    return elements.flatMap((element, at) => {
      const column = PART.exec(element)?.[1]
      if (column === undefined) return []
      const without = elements.filter((_, other) => other !== at).join(',')
      const files = { [file]: text.slice(0, from) + without + text.slice(to) }
      return [{ what, column, files: what === 'entry' ? { ...files, [APPENDER]: appendWhole() } : files }]
    })
  })
}

/** The text of the server's chain.ts that appends entries as `entryHash` hashes them. */
function appendWhole(): string {
  const source = readFileSync(new URL(APPENDER, AUDIT), 'utf8')
  return replaceOnce(source, APPENDED, APPENDED_WHOLE, 'the append').replace('textHash }', 'entryHash }')
}

/** A guard of the server, and how its source reads without it. */
export interface Guard {
  guard: string
  text: string
}

export const GUARDED_FILES = Object.keys(guards) as (keyof typeof guards)[]

/** Mutants of a file of packages/server/src/core/audit, or beside it: each is without one of the guards that guards.json lists for the file. */
export function listGuardMutants(file: keyof typeof guards): Guard[] {
  const source = readFileSync(new URL(file, AUDIT), 'utf8')
  return Object.entries<string[]>(guards[file]).map(([guard, [from = '', to = '']]) => ({
    guard,
    text: replaceOnce(source, from, to, guard),
  }))
}

/** A guard that only shows on a database. */
export interface DatabaseGuard extends Guard {
  /** of packages/server/src/core/audit, or beside it */
  file: string
  /** the ends of the paths in test/audit of the files whose tests go red without it, as a regular expression, and the names of these tests */
  red: readonly [files: string, names: string]
}

/** Mutants without one of the guards of database-guards.json, which slow/mutation.test.ts attacks. */
export function listDatabaseGuardMutants(): DatabaseGuard[] {
  return Object.entries<Record<string, { patch: string[]; red: string[] }>>(databaseGuards).flatMap(([file, list]) => {
    const source = readFileSync(new URL(file, AUDIT), 'utf8')
    return Object.entries(list).map(
      ([
        guard,
        {
          patch,
          red: [files = '', names = ''],
        },
      ]) => {
        const [from = '', to = ''] = patch
        return { guard, file, text: replaceOnce(source, from, to, guard), red: [files, names] }
      },
    )
  })
}

// The guard is found whatever its spaces and line breaks, and the comma that a formatter puts at the end of a list: reformatting keeps it.
function replaceOnce(source: string, from: string, to: string, what: string): string {
  const all = withoutFormat(source)
  const wanted = withoutFormat(from).text
  const at = all.text.indexOf(wanted)
  if (at < 0 || all.text.indexOf(wanted, at + 1) >= 0) throw new Error(`the source is not there once: ${what}`)
  const [first = 0, last = 0] = [all.positions[at], all.positions[at + wanted.length - 1]]
  return source.slice(0, first) + to + source.slice(last + 1)
}

/** A text without what only formats it, and the position of each character in the text. */
function withoutFormat(source: string): { text: string; positions: number[] } {
  const positions = [...source.matchAll(/[^\s,]|,(?!\s*[)\]}])/g)].map(({ index }) => index)
  return { text: positions.map((position) => source[position]).join(''), positions }
}
