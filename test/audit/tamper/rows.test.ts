// Attacks on the rows that grant rights, and on the wrapped keys in them.
import { describe, expect, it } from 'vitest'
import { apiKeyMac, keyMac, keyVersionMac, tenantMac } from '../../../packages/server/src/core/audit/formats/row-mac.js'
import { generateApiKey } from '../../../packages/server/src/core/crypto/api-key.js'
import { readEvidence } from '../../../packages/server/src/core/store/audit-evidence.js'
import { dek, type Server, type Target } from '../../support/audit/audit-scene.js'
import { columnsOf, insertFrom } from '../../support/database/migrations.js'
import { expectNoticed, LOGS, lastId, of, run, scene, tellsOf, useScene } from './attacks.js'

useScene()

it('the MACs of rows are the ones that their tables hold', async () => {
  // Guards the attacks below, which prove nothing unless the untouched rows verify.
  for (const target of [scene.whole, scene.purged]) {
    const { rows } = await readEvidence(scene.service.services.sql, target.tenant_id)
    const macs = [
      ...(rows.tenant ? [[rows.tenant.mac, tenantMac(target.rowKey, rows.tenant)] as const] : []),
      ...rows.keys.map((row) => [row.mac, keyMac(target.rowKey, row)] as const),
      ...rows.versions.map((row) => [row.mac, keyVersionMac(target.rowKey, row)] as const),
      ...rows.apiKeys.map((row) => [row.mac, apiKeyMac(target.rowKey, row)] as const),
    ]
    expect(macs.length).toBeGreaterThan(15)
    for (const [stored, computed] of macs) expect(Buffer.from(stored)).toEqual(Buffer.from(computed))
  }
})

const KEY_CHANGES = /^key\.(create|rotate|enable|disable|destroy|rotation_policy)$/

const ofKey = (target: Target, key_id = target.key_id) =>
  tellsOf(target, (entry) => entry.key_id === key_id && KEY_CHANGES.test(entry.action))
const ofVersion = (target: Target, version: number, key_id = target.key_id) =>
  tellsOf(
    target,
    (entry) =>
      entry.key_id === key_id &&
      ((entry.action === 'key.create' && version === 1) ||
        (entry.action === 'key.rotate' && [version, version + 1].includes(entry.key_version ?? 0))),
  )
const ofApiKey = (target: Target, id: string) =>
  tellsOf(target, (entry) => entry.action.startsWith('api_key.') && (entry.metadata?.includes(id) ?? false))
const ofTenant = (target: Target) => tellsOf(target, ({ action, id }) => action === 'tenant.update' || id === 1)

/** A call that must not be answered with a 2xx once the row has been tampered with. */
type Use = (server: Server, target: Target) => Promise<{ status: number }>
const wrapWith =
  (key: 'key_id' | 'disabled_key_id' | 'other_key_id'): Use =>
  (server, target) =>
    server.call(target.secret, 'POST', `/v1/keys/${target[key]}/wrap`, { dek: dek() })
const callWith =
  (apiKey: 'limited' | 'expired' | 'revoked'): Use =>
  (server, target) =>
    server.call(target[apiKey].secret, 'GET', '/v1/keys')

interface RowEdit {
  table: string
  column: string
  set: string
  where: (target: Target) => string
  broken_at: (target: Target) => number
  use: Use
  /** the row is no longer found under its old name */
  isGone?: boolean
}
const flip = (column: string) => `set_byte(${column}, 20, get_byte(${column}, 20) # 1)`
const edits = (
  common: Omit<RowEdit, 'column' | 'set' | 'isGone'>,
  list: readonly [column: string, set: string, isGone?: 'gone'][],
): RowEdit[] => list.map(([column, set, gone]) => ({ ...common, column, set, isGone: gone === 'gone' }))

const ROW_EDITS: readonly RowEdit[] = [
  ...edits(
    {
      table: 'keys',
      where: ({ disabled_key_id }) => `key_id = '${disabled_key_id}'`,
      broken_at: (target) => ofKey(target, target.disabled_key_id),
      use: wrapWith('disabled_key_id'),
    },
    [
      ['status', "'active'"],
      ['name', "'another'"],
      ['algorithm', "'none'"],
      ['current_version', '0'],
      ['min_unwrap_version', '2'],
      ['min_unwrap_version', '0'],
      ['min_unwrap_since', "'2020-01-01T00:00:00Z'"],
      ['destroyed_through', '1'],
      ['rotation_interval_days', '30'],
      ['next_rotation_at', "'2026-01-01T00:00:00Z'"],
      ['next_rotation_at', "'infinity'"],
      ['destroy_at', "'2026-01-01T00:00:00Z'"],
      ['wrapped_hash_key', flip('wrapped_hash_key')],
      ['wrapped_hash_key', 'null'],
      ['created_at', "created_at + interval '1 ms'"],
      ['updated_at', "updated_at + interval '1 ms'"],
      ['entry_id', 'entry_id - 1'],
      ['entry_id', '0'],
      ['entry_id', '9223372036854775807'],
      ['mac', flip('mac')],
      ['mac', "''"],
      ['tenant_id', 'gen_random_uuid()', 'gone'],
      ['key_id', 'gen_random_uuid()', 'gone'],
    ],
  ),
  ...edits(
    {
      table: 'key_versions',
      where: ({ key_id }) => `key_id = '${key_id}' and version = 3`,
      broken_at: (target) => ofVersion(target, 3),
      use: wrapWith('key_id'),
    },
    [
      ['status', "'retired'"],
      ['wrapped_kek', flip('wrapped_kek')],
      ['wrapped_kek', 'null'],
      ['created_at', "created_at + interval '1 ms'"],
      ['entry_id', 'entry_id + 1'],
      ['mac', flip('mac')],
      ['tenant_id', 'gen_random_uuid()', 'gone'],
      ['key_id', 'gen_random_uuid()', 'gone'],
      ['version', '7', 'gone'],
    ],
  ),
  ...edits(
    {
      table: 'api_keys',
      where: ({ limited }) => `api_key_id = '${limited.id}'`,
      broken_at: (target) => ofApiKey(target, target.limited.id),
      use: callWith('limited'),
    },
    [
      ['allowed_ips', "'{}'"],
      ['allowed_ips', "'{0.0.0.0/0}'"],
      ['keys', 'null'],
      ['keys', "'{customers/*}'"],
      ['keys', "'{}'"],
      ['budgets', 'null'],
      ['budgets', `'{"hash":{"per_day":9}}'`],
      ['permissions', "permissions || '{encrypt,decrypt,api_keys:manage}'"],
      ['name', "'another'"],
      ['prefix', "'eaas_sk_'"],
      ['created_at', "created_at - interval '1 ms'"],
      ['entry_id', 'entry_id + 1'],
      ['mac', flip('mac')],
      ['tenant_id', 'gen_random_uuid()', 'gone'],
      ['api_key_id', 'gen_random_uuid()', 'gone'],
      ['digest', "repeat('0', 64)"],
    ],
  ),
  ...edits(
    {
      table: 'api_keys',
      where: ({ expired }) => `api_key_id = '${expired.id}'`,
      broken_at: (target) => ofApiKey(target, target.expired.id),
      use: callWith('expired'),
    },
    [
      ['expires_at', 'null'],
      ['expires_at', "'2999-01-01T00:00:00Z'"],
      ['expires_at', "'infinity'"],
    ],
  ),
  ...edits(
    {
      table: 'api_keys',
      where: ({ revoked }) => `api_key_id = '${revoked.id}'`,
      broken_at: (target) => ofApiKey(target, target.revoked.id),
      use: callWith('revoked'),
    },
    [
      ['revoked_at', 'null'],
      ['revoked_at', "'2999-01-01T00:00:00Z'"],
    ],
  ),
  ...edits(
    {
      table: 'tenants',
      where: () => 'true',
      broken_at: ofTenant,
      use: (server, target) =>
        server.call(target.secret, 'POST', '/v1/encrypt', { key_id: target.key_id, plaintext: 'x' }),
    },
    [
      ['envelope_only', 'false'],
      ['monthly_encrypt_quota', 'null'],
      ['monthly_encrypt_quota', '1000000'],
      ['monthly_encrypt_quota', '9223372036854775807'],
      ['plaintext_encoding', "'base64'"],
      ['status', "'suspended'"],
      ['name', "'another'"],
      ['wrapped_audit_key', flip('wrapped_audit_key')],
      ['created_at', "created_at + interval '1 ms'"],
      ['entry_id', 'entry_id + 1'],
      ['mac', flip('mac')],
      ['tenant_id', 'gen_random_uuid()', 'gone'],
    ],
  ),
]

/** A server whose caches are empty must refuse what it served before. */
async function expectRefused(target: Target, use: Use): Promise<void> {
  expect((await use(scene.server(), target)).status).toBeGreaterThanOrEqual(400)
}

describe.each(LOGS)('a row that grants rights, in a log that is %s,', (log) => {
  it.each(ROW_EDITS)('is refused and named when the $column of $table becomes $set', async (edit) => {
    const { table, column, set, where, broken_at, use, isGone } = edit
    const target = of(log)
    const attack = async () => {
      const condition = `tenant_id = '${target.tenant_id}' and ${where(target)}`
      expect((await run(`update ${table} set ${column} = ${set} where ${condition}`)).count).toBe(1)
    }
    const fault = { reason: isGone ? 'row_missing' : 'row_forged', broken_at: broken_at(target) }
    const isShutOut = table === 'tenants' && ['tenant_id', 'wrapped_audit_key'].includes(column)
    await expectNoticed(target, attack, { ...fault, isShutOut })
    await expectRefused(target, use)
  })

  const DELETED: [string, string, (target: Target) => string, (target: Target) => number, Use][] = [
    [
      'an API key',
      'api_keys',
      ({ limited }) => `api_key_id = '${limited.id}'`,
      (t) => ofApiKey(t, t.limited.id),
      callWith('limited'),
    ],
    ['a key', 'keys', ({ key_id }) => `key_id = '${key_id}'`, (t) => ofKey(t), wrapWith('key_id')],
    [
      'a key version',
      'key_versions',
      ({ key_id }) => `key_id = '${key_id}' and version = 3`,
      (t) => ofVersion(t, 3),
      wrapWith('key_id'),
    ],
    ['the tenant', 'tenants', () => 'true', ofTenant, wrapWith('key_id')],
  ]
  it.each(DELETED)('is missed when the one of %s is deleted', async (_, table, where, broken_at, use) => {
    const target = of(log)
    const attack = () => run(`delete from ${table} where tenant_id = '${target.tenant_id}' and ${where(target)}`)
    const isShutOut = table === 'tenants'
    await expectNoticed(target, attack, { reason: 'row_missing', broken_at: broken_at(target), isShutOut })
    await expectRefused(target, use)
  })

  it('is refused and named when two versions of a key, written by one entry, have exchanged their numbers', async () => {
    const target = of(log)
    const where = `tenant_id = '${target.tenant_id}' and key_id = '${target.key_id}'`
    const renumber = (from: number, to: number) =>
      run(`update key_versions set version = ${to} where ${where} and version = ${from}`)
    const attack = async () => {
      await renumber(2, 0)
      await renumber(3, 2)
      await renumber(0, 3)
    }
    await expectNoticed(target, attack, { reason: 'row_forged', broken_at: ofVersion(target, 3) })
    await expectRefused(target, wrapWith('key_id'))
  })

  it("is refused and named when it is an API key with a secret of the attacker's choice", async () => {
    const target = of(log)
    const secret = generateApiKey(target.tenant_id)
    const attack = () => insertApiKey(target, secret)
    await expectNoticed(target, attack, { reason: 'row_forged', broken_at: lastId(target) + 1 })
    await expectRefused(target, (server) => server.call(secret, 'GET', '/v1/keys'))
  })

  it('is refused and named when it is an own API key, copied from another tenant', async () => {
    const [target, own] = [of(log), of(log === 'whole' ? 'purged' : 'whole')]
    const secret = generateApiKey(target.tenant_id)
    const attack = () => insertApiKey(target, secret, own)
    await expectNoticed(target, attack, { reason: 'row_forged', broken_at: lastId(target) + 1 })
    await expectRefused(target, (server) => server.call(secret, 'GET', '/v1/keys'))
  })

  // The digest is the right one: an attacker without the pepper does not even get that far.
  const insertApiKey = (target: Target, secret: string, from = target) =>
    run(
      `insert into api_keys select $1, gen_random_uuid(), $2, name, prefix, permissions, '{}', null, null, created_at,
         entry_id, mac
       from api_keys where tenant_id = $3 order by created_at limit 1`,
      [target.tenant_id, scene.service.services.peppers.digest(secret).digest, from.tenant_id],
    )

  it.each([
    [
      're-activates a disabled key',
      'keys',
      ({ disabled_key_id }: Target) => `key_id = '${disabled_key_id}'`,
      (t: Target) => ofKey(t, t.disabled_key_id),
    ],
    [
      'un-revokes an API key',
      'api_keys',
      ({ revoked }: Target) => `api_key_id = '${revoked.id}'`,
      (t: Target) => ofApiKey(t, t.revoked.id),
    ],
    [
      'undoes a rotation',
      'keys',
      ({ other_key_id }: Target) => `key_id = '${other_key_id}'`,
      (t: Target) => ofKey(t, t.other_key_id),
    ],
  ] as const)(
    'is named when an older one, genuine with its MAC, is put back and %s',
    async (_, table, where, broken_at) => {
      const target = of(log)
      const condition = `tenant_id = '${target.tenant_id}' and ${where(target)}`
      const attack = () =>
        run(`delete from ${table} where ${condition}; ${insertFrom(table, `early.${table}`)} where ${condition}`)
      await expectNoticed(target, attack, { reason: 'row_replaced', broken_at: broken_at(target) })
    },
  )
})

it('every column of every row that grants rights is among those that are edited', () => {
  for (const table of ['tenants', 'keys', 'key_versions', 'api_keys']) {
    const edited = ROW_EDITS.filter((edit) => edit.table === table).map(({ column }) => column)
    const columns = columnsOf(table).filter((column) => !['last_used_at', 'pepper'].includes(column)) // unnoticed.test.ts
    expect([...new Set(edited)].sort()).toEqual(columns.sort())
  }
})

describe('wrapped key material', () => {
  const swap = (table: string, column: string, a: string, b: string) =>
    run(`
      create temporary table swapped as select ${column} as secret from ${table} where ${a};
      update ${table} set ${column} = (select ${column} from ${table} where ${b}) where ${a};
      update ${table} set ${column} = (select secret from swapped) where ${b};
      drop table swapped`)
  const version = ({ tenant_id }: Target, key_id: string, number: number) =>
    `tenant_id = '${tenant_id}' and key_id = '${key_id}' and version = ${number}`

  /** Every active key of both tenants tries the wrapped key: none may open it. */
  async function expectNothingOpens(wrapped_key: string): Promise<void> {
    for (const target of [scene.whole, scene.purged]) {
      for (const id of [target.key_id, target.other_key_id, target.disabled_key_id]) {
        const answer = await scene.server().call(target.secret, 'POST', `/v1/keys/${id}/unwrap`, { wrapped_key })
        expect(answer.status).toBeGreaterThanOrEqual(400)
      }
    }
  }

  /** As one does who holds the row key too: the rows' MACs are right, the secrets stand in the wrong place. */
  async function resealVersions(target: Target): Promise<void> {
    const { rows } = await readEvidence(scene.service.services.sql, target.tenant_id)
    for (const row of rows.versions) {
      const { tenant_id, key_id, version } = row
      await run('update key_versions set mac = $4 where tenant_id = $1 and key_id = $2 and version = $3', [
        tenant_id,
        key_id,
        version,
        keyVersionMac(target.rowKey, row),
      ])
    }
  }

  const EXCHANGES: [string, (target: Target, other: Target) => [string, string], (target: Target) => number][] = [
    [
      'two keys',
      (target) => [version(target, target.key_id, 1), version(target, target.other_key_id, 1)],
      (target) => Math.min(ofVersion(target, 1), ofVersion(target, 1, target.other_key_id)),
    ],
    [
      'two versions of a key',
      (target) => [version(target, target.key_id, 1), version(target, target.key_id, 3)],
      (target) => Math.min(ofVersion(target, 1), ofVersion(target, 3)),
    ],
    [
      'two tenants',
      (target, other) => [version(target, target.key_id, 1), version(other, other.key_id, 1)],
      (target) => ofVersion(target, 1),
    ],
  ]
  it.each(EXCHANGES)('that is exchanged between %s is noticed, and opens nothing', async (_, rows, broken_at) => {
    const { whole, purged } = scene
    const attack = () => swap('key_versions', 'wrapped_kek', ...rows(whole, purged))
    await expectNoticed(whole, attack, { reason: 'row_forged', broken_at: broken_at(whole) })
    await expectNothingOpens(whole.wrapped.first)
    await resealVersions(whole)
    await resealVersions(purged)
    await expectNothingOpens(whole.wrapped.first)
  })

  it('of an older version in the place of a newer one is noticed, and opens nothing', async () => {
    const { whole } = scene
    const { tenant_id, key_id } = whole
    const attack = () =>
      run(`update key_versions v set wrapped_kek = o.wrapped_kek from key_versions o
           where v.tenant_id = '${tenant_id}' and v.key_id = '${key_id}' and v.version = 3
             and o.tenant_id = '${tenant_id}' and o.key_id = '${key_id}' and o.version = 1`)
    await expectNoticed(whole, attack, { reason: 'row_forged', broken_at: ofVersion(whole, 3) })
    await expectNothingOpens(whole.wrapped.current)
    await resealVersions(whole)
    await expectNothingOpens(whole.wrapped.current)
  })

  it('of the blind index that is exchanged between two keys is noticed, and hashes nothing', async () => {
    const { whole } = scene
    const of = (key_id: string) => `tenant_id = '${whole.tenant_id}' and key_id = '${key_id}'`
    const attack = () => swap('keys', 'wrapped_hash_key', of(whole.key_id), of(whole.other_key_id))
    const broken_at = Math.min(ofKey(whole), ofKey(whole, whole.other_key_id))
    await expectNoticed(whole, attack, { reason: 'row_forged', broken_at })
    await expectRefused(whole, (server) =>
      server.call(whole.secret, 'POST', '/v1/hash', { key_id: whole.key_id, value: 'x' }),
    )
  })
})
