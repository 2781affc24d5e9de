// Every column is authenticated: if one is left out of its MAC, an edit of that column no longer changes the MAC. These tests patch
// and load the server's own source; slow/mutation.test.ts runs the whole suite of attacks on each such server. And each guard that
// the slow suites take out is there.
import { createSecretKey } from 'node:crypto'
import { readdir } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, it } from 'vitest'
import { columnsOf } from '../../support/database/migrations.js'
import { loadMacs, type Macs, useMutantFolder } from './mutant-server.js'
import { GUARDED_FILES, listDatabaseGuardMutants, listGuardMutants, listMutants, type Sealed } from './mutants.js'

const MUTANTS = listMutants()
const TABLES: Record<Sealed, string> = {
  entry: 'audit_log',
  head: 'heads',
  mark: 'purge_marks',
  tenants: 'tenants',
  keys: 'keys',
  key_versions: 'key_versions',
  api_keys: 'api_keys',
}

/** Columns that are only shown to people, and decide nothing. */
const NOT_AUTHENTICATED: Partial<Record<Sealed, string[]>> = { api_keys: ['last_used_at', 'pepper'] }

useMutantFolder()
let genuine: Macs
beforeAll(async () => {
  genuine = await loadMacs('genuine')
})

const key = createSecretKey(Buffer.alloc(32, 1))
/** Two values of every column, of any table: what was written, and what an attacker makes of it. */
const VALUES: Record<string, [unknown, unknown]> = {
  tenant_id: ['6f9619ff-8b86-4011-b42d-00c04fc964ff', '6f9619ff-8b86-4011-b42d-00c04fc964fe'],
  key_id: ['7c9e6679-7425-40de-944b-e07fc1f90ae7', null],
  api_key_id: ['7c9e6679-7425-40de-944b-e07fc1f90ae7', '7c9e6679-7425-40de-944b-e07fc1f90ae8'],
  permissions: [['encrypt'], ['encrypt', 'decrypt']],
  allowed_ips: [['10.0.0.0/8'], []],
  keys: [['customers/*'], null],
  budgets: ['{"hash":{"per_day":9}}', null],
  envelope_only: [true, false],
  ...Object.fromEntries(
    ['hash', 'previous_mac'].map((column) => [column, [new Uint8Array(32), new Uint8Array(32).fill(1)]]),
  ),
  // Whether there is a secret: its seal is bound to its row by itself.
  ...Object.fromEntries(
    ['wrapped_audit_key', 'wrapped_hash_key', 'wrapped_kek'].map((column) => [column, [new Uint8Array(65), null]]),
  ),
  ...Object.fromEntries(
    [
      ['id', 'key_version', 'last_id', 'policy_version', 'purged_through', 'entries', 'monthly_encrypt_quota'],
      ['entry_id', 'current_version', 'rotation_interval_days', 'version'],
    ]
      .flat()
      .map((column) => [column, [7, 8]]),
  ),
}
const columnValue = (column: string, at: 0 | 1) => (VALUES[column] ?? ['as written', 'edited'])[at]

function rowOf(what: Sealed, edited?: string): never {
  const columns = columnsOf(TABLES[what]).filter((column) => column !== 'mac')
  return Object.fromEntries(columns.map((column) => [column, columnValue(column, column === edited ? 1 : 0)])) as never
}

/** Computes the MAC that the server compares with the stored one, in hexadecimal. */
function sealed(server: Macs, what: Sealed, row: never): string {
  const write: Record<Sealed, () => Uint8Array> = {
    entry: () => server.entryMac(key, 1, server.entryHash(new Uint8Array(32), row)),
    head: () => server.headMac(key, row),
    mark: () => server.purgeMarkMac(key, row),
    tenants: () => server.tenantMac(key, row),
    keys: () => server.keyMac(key, row),
    key_versions: () => server.keyVersionMac(key, row),
    api_keys: () => server.apiKeyMac(key, row),
  }
  return Buffer.from(write[what]()).toString('hex')
}

describe('what is authenticated', () => {
  it('is every column of its table, but what decides nothing', () => {
    for (const [what, table] of Object.entries(TABLES) as [Sealed, string][]) {
      const parts = MUTANTS.filter((mutant) => mutant.what === what).map(({ column }) => column)
      const proofs = what === 'entry' ? ['hash', 'mac'] : ['mac']
      const others = NOT_AUTHENTICATED[what] ?? []
      expect([what, ...parts, ...proofs, ...others].sort()).toEqual([what, ...columnsOf(table)].sort())
    }
  })

  it.each(MUTANTS)(
    'holds the $column of $what, and a server without it would not see that it was edited',
    async (mutant) => {
      const { what, column } = mutant
      const weaker = await loadMacs(`without-${what}-${column}`, mutant)
      expect(sealed(genuine, what, rowOf(what, column))).not.toBe(sealed(genuine, what, rowOf(what)))
      expect(sealed(weaker, what, rowOf(what, column))).toBe(sealed(weaker, what, rowOf(what)))
    },
  )
})

describe('each guard that the slow suites take out', () => {
  it('is in the source', () => {
    expect(GUARDED_FILES.flatMap(listGuardMutants).length).toBeGreaterThan(200)
  })

  it('is in the source, and its attacks on a database have a file', async () => {
    const folder = fileURLToPath(new URL('..', import.meta.url))
    const files = (await readdir(folder, { recursive: true })).filter((path) => path.endsWith('.test.ts'))
    const guards = listDatabaseGuardMutants()
    expect(guards.length).toBeGreaterThan(200)
    const hasFile = ({ red }: (typeof guards)[number]) =>
      files.some((path) => new RegExp(`(^|/)${red[0]}\\.test`).test(path))
    expect(guards.filter((one) => !hasFile(one)).map(({ guard }) => guard)).toEqual([])
  })
})
