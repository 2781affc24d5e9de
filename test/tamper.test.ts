// Attacks on a tenant's log by someone who has the whole database and no key. Each starts from the same rows, is told alike by
// the server and by a verifier that shares no code with it, and is undone. chain.md 9 says which fault and which entry is named.
import { createHash, randomBytes } from 'node:crypto'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import {
  type AuditEntry,
  entryHash,
  entryMac,
  extendChain,
  genesisHash,
  type Head,
} from '../packages/server/src/audit/chain.js'
import { readCheckpoint } from '../packages/server/src/audit/checkpoint.js'
import { apiKeyMac, keyMac, keyVersionMac, tenantMac } from '../packages/server/src/audit/row-mac.js'
import { verifyLog } from '../packages/server/src/audit/verify.js'
import { verifyExport } from '../packages/server/src/audit/verify-export.js'
import { apiKeyDigest, generateApiKey } from '../packages/server/src/crypto/api-key.js'
import { readChain } from '../packages/server/src/store/audit.js'
import { readEvidence } from '../packages/server/src/store/audit-evidence.js'
import { checkTenant, type Entry } from './independent/checker.js'
import { isChainSound, readNote, verifyIndependently } from './independent/verifier.js'
import {
  copyTables,
  dek,
  makeScene,
  restoreTables,
  type Scene,
  type Server,
  serverOf,
  type Target,
} from './support/audit-scene.js'
import { columnsOf } from './support/migrations.js'
import { type Service, startService } from './support/service.js'

/** The run that takes parts out of the server's MACs (slow/mutation.test.ts) must not be saved by the second verifier. */
const hasSecondVerifier = process.env.EAAS_TEST_ONE_VERIFIER !== '1'

let scene: Scene
beforeAll(async () => {
  scene = await makeScene()
}, 120_000)
afterEach(() => scene?.restore('final'))
afterAll(() => scene?.close())

type Log = 'whole' | 'purged'
const LOGS: readonly Log[] = ['whole', 'purged']

interface Told {
  valid: boolean
  reason?: string | undefined
  broken_at?: number | undefined
}
type Fault = Required<Pick<Told, 'reason' | 'broken_at'>>

interface Expectation {
  /** the attack leaves no head that the server wrote: then every call but this one is refused, and an alarm raised */
  headIsBad?: boolean
  /** the attack takes what a server that starts anew needs to let the caller in */
  isShutOut?: boolean
  /** the chain alone does not show it: docs/auditing.md says so in the first column. What is not about entries never does. */
  isBeyondChain?: boolean
}

function verify(target: Target, checkpoint?: string): Promise<Told> {
  const { tenant_id, auditKey, rowKey } = target
  const kept = checkpoint === undefined ? undefined : readCheckpoint(checkpoint, publicKey)
  return verifyLog(scene.service.services.sql, { tenant_id, auditKey, rowKey, checkpoint: kept })
}

async function verifySecondly({ tenant_id, auditKey }: Target, checkpoint?: string): Promise<Told> {
  const kept = checkpoint === undefined ? undefined : readNote(checkpoint, publicKey)
  return verifyIndependently(scene.sql, { tenant_id, auditKey: auditKey.export(), checkpoint: kept })
}

const told = ({ valid, reason, broken_at }: Told): Told => ({ valid, reason, broken_at })

/** Makes the attack under a running server; it, a server that starts anew, and the second verifier must tell the same. */
async function expectNoticed(
  target: Target,
  attack: () => Promise<unknown>,
  { headIsBad = false, isShutOut = false, isBeyondChain, ...fault }: Fault & Expectation,
): Promise<void> {
  const start = await startOf(target)
  const [running, fresh] = [scene.server(), scene.server()]
  const ask = (server: Server) => server.call(target.secret, 'GET', '/v1/audit/verify')
  expect(await ask(running)).toMatchObject({ status: 200, body: { valid: true } })
  await attack()
  const expected = { valid: false, ...fault }
  expect(told(await verify(target))).toEqual(expected)
  if (hasSecondVerifier) {
    expect(told(await verifySecondly(target))).toEqual(expected)
    const isSound = await isChainSound(scene.sql, { ...target, auditKey: target.auditKey.export() }, start)
    expect({ isSound }).toEqual({ isSound: isBeyondChain ?? /^(row|mark|head)_/.test(fault.reason ?? '') })
    // The checker of the crash tests has words of its own for rows, and wants every mark to be genuine, not the newest alone.
    if (!fault.reason?.startsWith('row_')) {
      const { verdict } = await checkTenant(scene.sql, { ...target, auditKey: target.auditKey.export() })
      expect(verdict.valid).toBe(false)
      if (verdict.reason !== 'mark_forged') expect(verdict.broken_at).toBe(fault.broken_at)
    }
  }
  for (const server of isShutOut ? [running] : [running, fresh]) {
    const { status, body } = await ask(server)
    expect([status, told(body)]).toEqual([200, expected])
    if (!headIsBad) continue
    const other = await server.call(target.secret, 'GET', '/v1/keys')
    expect([other.status, other.body.code, server.alarms.length]).toEqual([500, 'E_AUDIT_NOT_WRITTEN', 1])
  }
  if (isShutOut) expect((await ask(fresh)).status).toBeGreaterThanOrEqual(400)
}

/** What the first entry that is there follows from. */
async function startOf({ tenant_id, purged_through }: Target): Promise<{ id: number; hash: Buffer }> {
  const [mark] = await run('select hash from purge_marks where tenant_id = $1 and purged_through = $2', [
    tenant_id,
    purged_through,
  ])
  return { id: purged_through, hash: Buffer.from(mark?.hash ?? genesisHash(tenant_id)) }
}

const of = (log: Log): Target => scene[log]
const run = (text: string, values: (string | number | Uint8Array | null)[] = []) => scene.sql.unsafe(text, values)
const firstId = ({ purged_through }: Target) => purged_through + 1
const lastId = ({ entries }: Target) => entries.at(-1)?.id ?? 0
const middleId = ({ entries }: Target) => entries[Math.floor(entries.length / 2)]?.id ?? 0

/** The first, the middle and the last entry that an edit can be made to. */
const PLACES = {
  first: (entries: Entry[]) => entries[0],
  middle: (entries: Entry[]) => entries[Math.floor(entries.length / 2)],
  last: (entries: Entry[]) => entries.at(-1),
} as const
const PLACE_NAMES = Object.keys(PLACES) as (keyof typeof PLACES)[]

interface Edit {
  column: string
  to: string
  set: string
  reason?: string
  when?: (entry: Entry) => boolean
}
const hasMetadata = ({ metadata }: Entry) => metadata !== null
const metadataHas = (part: string) => (entry: Entry) => entry.metadata?.includes(part) ?? false
const isPerson = ({ actor }: Entry) => actor !== 'system'

const EDITS: readonly Edit[] = [
  { column: 'tenant_id', to: 'that of nobody', set: 'gen_random_uuid()', reason: 'entry_missing' },
  { column: 'id', to: 'a later one', set: 'id + 1000', reason: 'entry_missing' },
  { column: 'id', to: 'a negative one', set: '-id', reason: 'entry_missing' },
  { column: 'id', to: 'the largest there is', set: '9223372036854775807', reason: 'entry_missing' },
  { column: 'action', to: 'another', set: "case action when 'key.wrap' then 'key.unwrap' else 'key.wrap' end" },
  { column: 'action', to: 'capitals', set: 'upper(action)' },
  { column: 'action', to: 'an empty one', set: "''" },
  { column: 'key_id', to: 'another', set: 'gen_random_uuid()', when: (entry) => entry.key_id !== null },
  { column: 'key_id', to: 'NULL', set: 'null', when: (entry) => entry.key_id !== null },
  {
    column: 'key_id',
    to: 'nil from NULL',
    set: "'00000000-0000-0000-0000-000000000000'",
    when: (entry) => entry.key_id === null,
  },
  { column: 'key_version', to: 'the next', set: 'key_version + 1', when: (entry) => entry.key_version !== null },
  { column: 'key_version', to: 'NULL', set: 'null', when: (entry) => entry.key_version !== null },
  { column: 'key_version', to: '0 from NULL', set: '0', when: (entry) => entry.key_version === null },
  { column: 'actor', to: 'somebody else', set: 'gen_random_uuid()::text' },
  { column: 'actor', to: 'the system', set: "'system'", when: isPerson },
  { column: 'actor', to: 'the system in capitals', set: "'System'", when: (entry) => !isPerson(entry) },
  { column: 'actor', to: 'its UUID in capitals', set: 'upper(actor)', when: isPerson },
  { column: 'actor', to: 'its UUID without dashes', set: "replace(actor, '-', '')", when: isPerson },
  { column: 'actor', to: 'its UUID in braces', set: "'{' || actor || '}'", when: isPerson },
  { column: 'actor', to: 'itself and a blank', set: "actor || ' '" },
  { column: 'actor', to: 'an empty one', set: "''" },
  { column: 'ip_address', to: 'an empty one from NULL', set: "''", when: (entry) => entry.ip_address === null },
  { column: 'ip_address', to: 'NULL', set: 'null', when: (entry) => entry.ip_address !== null },
  {
    column: 'ip_address',
    to: 'its IPv4-mapped form',
    set: "'::ffff:' || ip_address",
    when: (entry) => entry.ip_address !== null,
  },
  { column: 'ip_address', to: 'its CIDR form', set: "ip_address || '/32'", when: (entry) => entry.ip_address !== null },
  {
    column: 'ip_address',
    to: 'a spelling with zeros',
    set: "'127.000.000.001'",
    when: (entry) => entry.ip_address !== null,
  },
  { column: 'metadata', to: 'an empty text from NULL', set: "''", when: (entry) => entry.metadata === null },
  { column: 'metadata', to: 'JSON null from NULL', set: "'null'", when: (entry) => entry.metadata === null },
  { column: 'metadata', to: '{} from NULL', set: "'{}'", when: (entry) => entry.metadata === null },
  { column: 'metadata', to: 'NULL', set: 'null', when: hasMetadata },
  { column: 'metadata', to: '{}', set: "'{}'", when: hasMetadata },
  { column: 'metadata', to: 'itself with a blank', set: "replace(metadata, ':', ': ')", when: hasMetadata },
  { column: 'metadata', to: 'itself with an escape', set: "replace(metadata, 'a', '\\u0061')", when: metadataHas('a') },
  { column: 'metadata', to: 'its UUID in capitals', set: 'upper(metadata)', when: metadataHas('api_key_id') },
  {
    column: 'metadata',
    to: 'another order of its members',
    set: `regexp_replace(metadata, '^\\{("[a-z_]+":"?[^",]+"?),("[a-z_]+":"?[^",]+"?)\\}$', '{\\2,\\1}')`,
    when: ({ metadata }) => /^\{("[a-z_]+":"?[^",]+"?),("[a-z_]+":"?[^",]+"?)\}$/.test(metadata ?? ''),
  },
  {
    column: 'metadata',
    to: 'another form of its number',
    set: `regexp_replace(metadata, ':(\\d+)', ':\\1.0')`,
    when: ({ metadata }) => /:\d/.test(metadata ?? ''),
  },
  {
    column: 'metadata',
    to: 'its number as a text',
    set: `regexp_replace(metadata, ':(\\d+)', ':"\\1"')`,
    when: ({ metadata }) => /:\d/.test(metadata ?? ''),
  },
  {
    column: 'metadata',
    to: 'another boolean',
    set: `replace(replace(metadata, 'true', 'no'), 'false', 'true')`,
    when: metadataHas('false'),
  },
  { column: 'created_at', to: 'a millisecond later', set: "created_at + interval '1 ms'" },
  { column: 'created_at', to: 'a millisecond earlier', set: "created_at - interval '1 ms'" },
  { column: 'created_at', to: 'the end of time', set: "'infinity'" },
  { column: 'created_at', to: 'a year beyond all calendars', set: "'294276-12-31T23:59:59Z'" },
  { column: 'created_at', to: 'an hour later, as in another zone', set: "created_at + interval '1 hour'" },
  { column: 'hash', to: 'one with a flipped bit', set: 'set_byte(hash, 31, get_byte(hash, 31) # 1)' },
  { column: 'hash', to: 'an empty one', set: "''" },
  { column: 'hash', to: 'zeros', set: "decode(repeat('00', 32), 'hex')" },
  { column: 'hash', to: 'its MAC', set: 'mac' },
  {
    column: 'mac',
    to: 'one with a flipped bit',
    set: 'set_byte(mac, 0, get_byte(mac, 0) # 128)',
    reason: 'entry_forged',
  },
  { column: 'mac', to: 'an empty one', set: "''", reason: 'entry_forged' },
  { column: 'mac', to: 'zeros', set: "decode(repeat('00', 32), 'hex')", reason: 'entry_forged' },
  { column: 'mac', to: 'a shorter one', set: 'substring(mac for 16)', reason: 'entry_forged' },
  { column: 'mac', to: 'its hash', set: 'hash', reason: 'entry_forged' },
]

describe.each(LOGS)('an entry of a log that is %s', (log) => {
  const cases = EDITS.flatMap((edit) => PLACE_NAMES.map((place) => ({ ...edit, place })))

  it.each(cases)(
    'whose $column became $to is named ($place)',
    async ({ column, set, reason, when = () => true, place }) => {
      const target = of(log)
      const entry = PLACES[place](target.entries.filter(when))
      if (!entry) throw new Error(`the scene has no entry for this edit of ${column}`)
      const edit = () =>
        run(`update audit_log set ${column} = ${set} where tenant_id = $1 and id = $2`, [target.tenant_id, entry.id])
      // At an end, an entry that is another tenant's now is an entry that was cut off.
      const isBeyondChain = column === 'tenant_id' && place !== 'middle'
      await expectNoticed(target, edit, { reason: reason ?? 'entry_altered', broken_at: entry.id, isBeyondChain })
    },
  )
})

it('every column of an entry is among those that are edited', () => {
  expect([...new Set(EDITS.map(({ column }) => column))].sort()).toEqual(columnsOf('audit_log').sort())
})

it('every action stands in the logs that are attacked', () => {
  const actions = new Set(LOGS.flatMap((log) => of(log).entries.map(({ action }) => action)))
  expect([...actions].sort()).toEqual([...new Set(ACTIONS_EXPECTED)].sort())
})
const ACTIONS_EXPECTED = [
  'api_key.create',
  'api_key.revoke',
  'api_key.update',
  'audit.purge',
  'decrypt',
  'encrypt',
  'envelope_only.refused',
  'key.create',
  'key.destroy',
  'key.disable',
  'key.enable',
  'key.export',
  'key.rotate',
  'key.rotation_policy',
  'key.unwrap',
  'key.wrap',
  'tenant.update',
]

interface Structural extends Expectation {
  title: string
  attack: (target: Target, other: Target) => Promise<unknown>
  reason: string
  broken_at: (target: Target, other: Target) => number
}

const remove = (tenant_id: string, condition: string, ...ids: number[]) =>
  run(`delete from audit_log where tenant_id = $1 and ${condition}`, [tenant_id, ...ids])
const headTo = (tenant_id: string, id: number) =>
  run(
    `update heads set last_id = e.id, hash = e.hash, created_at = e.created_at, mac = e.mac
     from audit_log e where heads.tenant_id = $1 and e.tenant_id = $1 and e.id = $2`,
    [tenant_id, id],
  )
const editHead = ({ tenant_id }: Target, set: string) =>
  run(`update heads set ${set} where tenant_id = $1`, [tenant_id])
const copyAsLast = ({ tenant_id }: Target, from: { tenant_id: string; id: number }, id: number) =>
  run(
    `insert into audit_log select $1, $2, action, key_id, key_version, actor, ip_address, metadata, created_at, hash, mac
     from audit_log where tenant_id = $3 and id = $4`,
    [tenant_id, id, from.tenant_id, from.id],
  )
const exchange = (a: Target, b: Target, tables: readonly string[]) =>
  run(
    `${tables
      .map(
        (table) => `
          update ${table} set tenant_id = '00000000-0000-0000-0000-00000000000f' where tenant_id = '${a.tenant_id}';
          update ${table} set tenant_id = '${a.tenant_id}' where tenant_id = '${b.tenant_id}';
          update ${table} set tenant_id = '${b.tenant_id}' where tenant_id = '00000000-0000-0000-0000-00000000000f'`,
      )
      .join(';')}`,
  )

/** Continues the chain as anyone can who has no key: the hashes are right, the MACs are what `mac` says. */
async function forgeLast(target: Target, mac: Uint8Array, { moveHead }: { moveHead: boolean }): Promise<void> {
  const last = target.entries.at(-1)
  if (!last) throw new Error('the log is empty')
  const entry = { ...last, id: last.id + 1, action: 'key.unwrap' } as unknown as AuditEntry
  const hash = entryHash(last.hash, entry)
  await copyAsLast(target, last, entry.id)
  await run('update audit_log set action = $3, hash = $4, mac = $5 where tenant_id = $1 and id = $2', [
    target.tenant_id,
    entry.id,
    entry.action,
    hash,
    mac,
  ])
  if (moveHead) await headTo(target.tenant_id, entry.id)
}

const STRUCTURAL: readonly Structural[] = [
  {
    title: 'an entry in the middle is deleted',
    attack: (target) => remove(target.tenant_id, 'id = $2', middleId(target)),
    reason: 'entry_missing',
    broken_at: middleId,
  },
  {
    title: 'five entries in the middle are deleted',
    attack: (target) => remove(target.tenant_id, 'id between $2 and $2::bigint + 4', middleId(target)),
    reason: 'entry_missing',
    broken_at: middleId,
  },
  {
    title: 'an entry is deleted and the gap closed',
    async attack(target) {
      const gap = middleId(target)
      await remove(target.tenant_id, 'id = $2', gap)
      await run(`update audit_log set id = -id where tenant_id = $1 and id > $2`, [target.tenant_id, gap])
      await run(`update audit_log set id = -id - 1 where tenant_id = $1 and id < 0`, [target.tenant_id])
    },
    reason: 'entry_altered',
    broken_at: middleId,
  },
  {
    title: 'the first entry is deleted',
    attack: (target) => remove(target.tenant_id, 'id = $2', firstId(target)),
    reason: 'entry_missing',
    broken_at: firstId,
    isBeyondChain: true,
  },
  {
    title: 'the first five entries are deleted, and no purge took them',
    attack: (target) => remove(target.tenant_id, 'id < $2::bigint + 5', firstId(target)),
    reason: 'entry_missing',
    broken_at: firstId,
    isBeyondChain: true,
  },
  {
    title: 'the last entry is deleted',
    attack: (target) => remove(target.tenant_id, 'id = $2', lastId(target)),
    reason: 'entry_missing',
    broken_at: lastId,
    isBeyondChain: true,
  },
  {
    title: 'the last seven entries are deleted',
    attack: (target) => remove(target.tenant_id, 'id > $2', lastId(target) - 7),
    reason: 'entry_missing',
    broken_at: (target) => lastId(target) - 6,
    isBeyondChain: true,
  },
  {
    title: 'all entries are deleted',
    attack: (target) => remove(target.tenant_id, 'true'),
    reason: 'entry_missing',
    broken_at: firstId,
    isBeyondChain: true,
  },
  ...[1, 7].map((count) => ({
    title: `the last ${count} are deleted and the head set to the entry now last, with its MAC`,
    async attack(target: Target) {
      await remove(target.tenant_id, 'id > $2', lastId(target) - count)
      await headTo(target.tenant_id, lastId(target) - count)
    },
    reason: 'head_forged',
    broken_at: (target: Target) => lastId(target) - count + 1,
    headIsBad: true,
  })),
  {
    title: 'two entries are swapped',
    attack: (target) =>
      run(`update audit_log set id = -(2 * $2::bigint + 1 - id) where tenant_id = $1 and id in ($2, $2::bigint + 1)`, [
        target.tenant_id,
        middleId(target),
      ]).then(() => run('update audit_log set id = -id where tenant_id = $1 and id < 0', [target.tenant_id])),
    reason: 'entry_altered',
    broken_at: middleId,
  },
  {
    title: 'every entry is numbered one higher',
    async attack({ tenant_id }) {
      await run('update audit_log set id = -id - 1 where tenant_id = $1', [tenant_id])
      await run('update audit_log set id = -id where tenant_id = $1', [tenant_id])
    },
    reason: 'entry_missing',
    broken_at: firstId,
  },
  {
    title: 'a genuine entry stands there once more at the end',
    attack: (target) => copyAsLast(target, { tenant_id: target.tenant_id, id: middleId(target) }, lastId(target) + 1),
    reason: 'entry_beyond_head',
    broken_at: (target) => lastId(target) + 1,
  },
  {
    title: 'a genuine entry stands there once more and the head was moved on',
    async attack(target) {
      await copyAsLast(target, { tenant_id: target.tenant_id, id: middleId(target) }, lastId(target) + 1)
      await headTo(target.tenant_id, lastId(target) + 1)
    },
    reason: 'entry_altered',
    broken_at: (target) => lastId(target) + 1,
    headIsBad: true,
  },
  ...['an empty MAC', 'zeros for a MAC', 'a random MAC', 'a MAC that another entry has'].flatMap((title, at) => {
    const mac = (target: Target) =>
      [new Uint8Array(), new Uint8Array(32), randomBytes(32), target.entries[3]?.mac ?? new Uint8Array()][
        at
      ] as Uint8Array
    return [
      {
        title: `an entry with ${title} follows after the end`,
        attack: (target: Target) => forgeLast(target, mac(target), { moveHead: false }),
        reason: 'entry_beyond_head',
        broken_at: (target: Target) => lastId(target) + 1,
      },
      {
        title: `an entry with ${title} follows and the head was moved on`,
        attack: (target: Target) => forgeLast(target, mac(target), { moveHead: true }),
        reason: 'entry_forged',
        broken_at: (target: Target) => lastId(target) + 1,
        headIsBad: true,
      },
    ]
  }),
  {
    title: 'an entry is altered and every hash after it computed anew',
    async attack(target) {
      const from = middleId(target)
      let hash = target.entries.find(({ id }) => id === from - 1)?.hash as Uint8Array
      for (const entry of target.entries.filter(({ id }) => id >= from)) {
        const actor = entry.id === from ? 'somebody else' : entry.actor
        hash = entryHash(hash, { ...entry, actor } as unknown as AuditEntry)
        const values = [target.tenant_id, entry.id, actor, hash]
        await run('update audit_log set actor = $3, hash = $4 where tenant_id = $1 and id = $2', values)
      }
    },
    reason: 'entry_forged',
    broken_at: middleId,
  },
  {
    title: "an entry of another tenant's was moved here",
    async attack(target, other) {
      await copyAsLast(target, { tenant_id: other.tenant_id, id: middleId(other) }, lastId(target) + 1)
      await remove(other.tenant_id, 'id = $2', middleId(other))
    },
    reason: 'entry_beyond_head',
    broken_at: (target) => lastId(target) + 1,
  },
  {
    title: 'an entry was moved away to another tenant',
    async attack(target, other) {
      await copyAsLast(other, { tenant_id: target.tenant_id, id: middleId(target) }, lastId(other) + 1)
      await remove(target.tenant_id, 'id = $2', middleId(target))
    },
    reason: 'entry_missing',
    broken_at: middleId,
  },
  {
    title: "an entry is replaced by another tenant's",
    async attack(target, other) {
      await remove(target.tenant_id, 'id = $2', middleId(target))
      await copyAsLast(target, { tenant_id: other.tenant_id, id: middleId(other) }, middleId(target))
    },
    reason: 'entry_altered',
    broken_at: middleId,
  },
  {
    title: "the chain is exchanged for another tenant's, marks and head with it",
    attack: (target, other) => exchange(target, other, ['audit_log', 'heads', 'purge_marks']),
    reason: '',
    broken_at: () => 0,
    isBeyondChain: false,
    headIsBad: true,
  },
  {
    title: 'the chain is given to another tenant, which had none left',
    async attack(target, other) {
      await run('delete from audit_log where tenant_id = $1', [target.tenant_id])
      await run('delete from heads where tenant_id = $1', [target.tenant_id])
      await run('delete from purge_marks where tenant_id = $1', [target.tenant_id])
      await exchange(target, other, ['audit_log', 'heads', 'purge_marks'])
    },
    reason: '',
    broken_at: () => 0,
    isBeyondChain: false,
    headIsBad: true,
  },
  {
    title: 'the head is deleted',
    attack: ({ tenant_id }) => run('delete from heads where tenant_id = $1', [tenant_id]),
    reason: 'head_missing',
    broken_at: (target) => lastId(target) + 1,
    headIsBad: true,
  },
  {
    title: "the head is another tenant's",
    attack: (target, other) =>
      run(
        `update heads set last_id = o.last_id, hash = o.hash, policy_version = o.policy_version, created_at = o.created_at,
           mac = o.mac
         from heads o where heads.tenant_id = $1 and o.tenant_id = $2`,
        [target.tenant_id, other.tenant_id],
      ),
    reason: 'head_forged',
    broken_at: (target) => lastId(target) + 1,
    headIsBad: true,
  },
  ...[
    ['tenant_id', 'tenant_id = gen_random_uuid()'],
    ['last_id', 'last_id = last_id + 1'],
    ['last_id', 'last_id = last_id + 1000'],
    ['last_id', 'last_id = last_id - 1'],
    ['last_id', 'last_id = 9223372036854775807'],
    ['hash', 'hash = set_byte(hash, 0, get_byte(hash, 0) # 1)'],
    ['policy_version', 'policy_version = policy_version + 1'],
    ['policy_version', 'policy_version = policy_version - 1'],
    ['policy_version', 'policy_version = 9223372036854775807'],
    ['created_at', "created_at = 'infinity'"],
    ['created_at', "created_at = created_at + interval '1 ms'"],
    ['mac', 'mac = set_byte(mac, 0, get_byte(mac, 0) # 1)'],
    ['mac', "mac = ''"],
    ['mac', 'mac = hash'],
  ].map(([column = '', set = '']) => ({
    title: `the head's ${column} is edited: ${set}`,
    attack: (target: Target) => editHead(target, set),
    reason: column === 'tenant_id' ? 'head_missing' : 'head_forged',
    broken_at: (target: Target) => lastId(target) + 1,
    headIsBad: true,
  })),
  {
    title: 'the whole chain is deleted, and its head',
    async attack({ tenant_id }) {
      await remove(tenant_id, 'true')
      await run('delete from heads where tenant_id = $1', [tenant_id])
    },
    reason: 'head_missing',
    broken_at: firstId,
    headIsBad: true,
  },
  {
    title: 'a prefix is deleted under a forged mark',
    async attack(target, other) {
      await remove(target.tenant_id, 'id <= $2', middleId(target))
      await run(
        `insert into purge_marks select $1, $2, e.hash, 5, e.created_at, e.created_at, e.mac, m.mac
         from audit_log e, purge_marks m
         where e.tenant_id = $1 and e.id = $2::bigint + 1 and m.tenant_id in ($1, $3) limit 1`,
        [target.tenant_id, middleId(target), other.tenant_id],
      )
    },
    reason: 'mark_forged',
    broken_at: () => 1,
  },
]

/** What an exchange of chains shows as: it depends on which of the two has a mark. */
const EXCHANGED: Record<Log, Fault> = {
  whole: { reason: 'mark_forged', broken_at: 1 },
  purged: { reason: 'entry_altered', broken_at: 1 },
}

describe.each(LOGS)('a log that is %s', (log) => {
  const other: Log = log === 'whole' ? 'purged' : 'whole'

  it.each(STRUCTURAL)('is not valid when $title', async ({ title: _, attack, reason, broken_at, ...expectation }) => {
    const [target, bystander] = [of(log), of(other)]
    const fault = reason === '' ? EXCHANGED[log] : { reason, broken_at: broken_at(target, bystander) }
    await expectNoticed(target, () => attack(target, bystander), { ...expectation, ...fault })
  })

  it('takes no entry without a MAC', async () => {
    const target = of(log)
    const values = [target.tenant_id, lastId(target)]
    await expect(run('update audit_log set mac = null where tenant_id = $1 and id = $2', values)).rejects.toThrow(
      /not-null/,
    )
  })
})

describe('the marks of purges', () => {
  const MARK_EDITS: [column: string, set: string][] = [
    ['purged_through', 'purged_through + 1'],
    ['purged_through', 'purged_through + 1000000'],
    ['purged_through', '9223372036854775807'],
    ['entries', '-9223372036854775808'],
    ['cutoff', "'infinity'"],
    ['created_at', "'-infinity'"],
    ['hash', 'set_byte(hash, 0, get_byte(hash, 0) # 1)'],
    ['entries', 'entries + 1'],
    ['cutoff', "cutoff + interval '1 ms'"],
    ['created_at', "created_at - interval '1 ms'"],
    ['previous_mac', 'set_byte(previous_mac, 0, get_byte(previous_mac, 0) # 1)'],
    ['previous_mac', "decode(repeat('00', 32), 'hex')"],
    ['mac', 'set_byte(mac, 0, get_byte(mac, 0) # 1)'],
    ['mac', "''"],
    ['mac', 'previous_mac'],
  ]
  const editMark = ({ tenant_id, purged_through }: Target, column: string, set: string) =>
    run(`update purge_marks set ${column} = ${set} where tenant_id = $1 and purged_through = $2`, [
      tenant_id,
      purged_through,
    ])

  it.each(MARK_EDITS)('tell when their %s is edited: %s', async (column, set) => {
    await expectNoticed(scene.purged, () => editMark(scene.purged, column, set), {
      reason: 'mark_forged',
      broken_at: 1,
    })
  })

  it.each([
    ['given to another tenant', 'tenant_id', 'gen_random_uuid()', 'purgedBefore'],
    ['set before the one before it', 'purged_through', '1', 'purgedBefore'],
  ] as const)('tell when the newest is %s: the one before it takes its place', async (_, column, set, from) => {
    const broken_at = scene.purged[from] + 1
    const fault = { reason: 'entry_missing', broken_at, isBeyondChain: true }
    await expectNoticed(scene.purged, () => editMark(scene.purged, column, set), fault)
  })

  it('cover every column among the edits', () => {
    expect([...new Set([...MARK_EDITS.map(([column]) => column), 'tenant_id'])].sort()).toEqual(
      columnsOf('purge_marks').sort(),
    )
  })

  it('tell when the newest is deleted, so that an older one counts again', async () => {
    const { tenant_id, purged_through, purgedBefore } = scene.purged
    const attack = () =>
      run('delete from purge_marks where tenant_id = $1 and purged_through = $2', [tenant_id, purged_through])
    const fault = { reason: 'entry_missing', broken_at: purgedBefore + 1, isBeyondChain: true }
    await expectNoticed(scene.purged, attack, fault)
  })

  it('tell when all of them are deleted', async () => {
    const attack = () => run('delete from purge_marks where tenant_id = $1', [scene.purged.tenant_id])
    await expectNoticed(scene.purged, attack, { reason: 'entry_missing', broken_at: 1, isBeyondChain: true })
  })

  it('tell when more was deleted than they say', async () => {
    const { tenant_id } = scene.purged
    const attack = () => remove(tenant_id, 'id <= $2', firstId(scene.purged) + 2)
    const fault = { reason: 'entry_missing', broken_at: firstId(scene.purged), isBeyondChain: true }
    await expectNoticed(scene.purged, attack, fault)
  })
})

const KEY_CHANGES = /^key\.(create|rotate|enable|disable|destroy|rotation_policy)$/

/** The last entry that tells of a row, as chain.md 9 has it; the id after the end where none does. */
function tellsOf(target: Target, isAbout: (entry: Entry) => boolean): number {
  return target.entries.filter(isAbout).at(-1)?.id ?? lastId(target) + 1
}
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

/** A call that must not be answered with a 2xx once the row is not the server's any more. */
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
  /** the row is found under its old name no more */
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
      [target.tenant_id, apiKeyDigest(scene.service.services.pepper, secret), from.tenant_id],
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
        run(
          `delete from ${table} where ${condition}; insert into ${table} select * from early.${table} where ${condition}`,
        )
      await expectNoticed(target, attack, { reason: 'row_replaced', broken_at: broken_at(target) })
    },
  )
})

it('every column of every row that grants rights is among those that are edited', () => {
  for (const table of ['tenants', 'keys', 'key_versions', 'api_keys']) {
    const edited = ROW_EDITS.filter((edit) => edit.table === table).map(({ column }) => column)
    expect([...new Set(edited)].sort()).toEqual(columnsOf(table).sort())
  }
})

describe('a row whose entry a purge has taken', () => {
  const oldRows = (table: string) =>
    run(`select * from ${table} where tenant_id = $1 and entry_id between 2 and $2 order by entry_id, mac`, [
      scene.purged.tenant_id,
      scene.purged.purged_through,
    ])

  it.each([
    ['keys', 'key_id'],
    ['key_versions', 'key_id'],
    ['api_keys', 'api_key_id'],
  ] as const)('is held to its MAC still: exchanged ids in %s are noticed', async (table, column) => {
    const [a, b] = (await oldRows(table))
      .map((row) => row[column] as string)
      .filter((id, at, all) => all.indexOf(id) === at)
    if (!a || !b) throw new Error('the scene has no two such rows')
    const attack = () =>
      run(`
        update ${table} set ${column} = '00000000-0000-0000-0000-00000000000f' where ${column} = '${a}' and entry_id <= ${scene.purged.purged_through};
        update ${table} set ${column} = '${a}' where ${column} = '${b}' and entry_id <= ${scene.purged.purged_through};
        update ${table} set ${column} = '${b}' where ${column} = '00000000-0000-0000-0000-00000000000f'`)
    await expectNoticed(scene.purged, attack, { reason: 'row_forged', broken_at: lastId(scene.purged) + 1 })
  })

  it.each(['keys', 'key_versions', 'api_keys'])(
    'is held to its MAC still: another entry id in %s is noticed',
    async (table) => {
      const attack = () =>
        run(`update ${table} set entry_id = entry_id - 1 where tenant_id = $1 and entry_id between 2 and $2`, [
          scene.purged.tenant_id,
          scene.purged.purged_through,
        ])
      await expectNoticed(scene.purged, attack, { reason: 'row_forged', broken_at: lastId(scene.purged) + 1 })
    },
  )
})

describe('what no verification notices', () => {
  /** Nobody who has only the log and the keys can tell. */
  async function expectUnnoticed(target: Target, attack: () => Promise<unknown>): Promise<void> {
    const kept = await takeCheckpoint(target)
    await attack()
    expect(told(await verify(target, kept.note))).toEqual({ valid: true })
    if (hasSecondVerifier) expect(told(await verifySecondly(target, kept.note))).toEqual({ valid: true })
  }

  it('is that a row is deleted whose entries a purge has taken', async () => {
    const { tenant_id, purged_through } = scene.purged
    const attack = async () => {
      for (const table of ['keys', 'key_versions', 'api_keys']) {
        const { count } = await run(`delete from ${table} where tenant_id = $1 and entry_id between 2 and $2`, [
          tenant_id,
          purged_through,
        ])
        expect(count).toBeGreaterThan(0)
      }
    }
    await expectUnnoticed(scene.purged, attack)
  })

  it('is that an older one, genuine with its MAC, is put back in the place of a row whose entries a purge has taken', async () => {
    const { tenant_id, purged_through, rowKey } = scene.purged
    const { rows } = await readEvidence(scene.service.services.sql, tenant_id)
    const row = rows.apiKeys.find(({ entry_id }) => entry_id > 2 && entry_id <= purged_through)
    if (!row) throw new Error('the scene has no such API key')
    // What the server wrote before: with more rights, and the entry of then.
    const older = { ...row, allowed_ips: [], revoked_at: null, entry_id: row.entry_id - 1 }
    const attack = () =>
      run("update api_keys set allowed_ips = '{}', revoked_at = null, entry_id = $2, mac = $3 where api_key_id = $1", [
        row.api_key_id,
        older.entry_id,
        apiKeyMac(rowKey, older),
      ])
    await expectUnnoticed(scene.purged, attack)
  })

  it.each(LOGS)('is that the counts by day are edited, in a log that is %s', async (log) => {
    const target = of(log)
    const attack = () =>
      run('update audit_counts set entries = entries + 7, purged = purged + 1 where tenant_id = $1', [target.tenant_id])
    await expectUnnoticed(target, attack)
  })
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

let publicKey = ''

interface Kept {
  note: string
  last_id: number
  hash: string
}

async function takeCheckpoint(target: Target): Promise<Kept> {
  const { body } = await scene.server().call(target.secret, 'GET', '/v1/audit/checkpoint')
  publicKey = body.public_key
  const { last_id, hash } = readCheckpoint(body.checkpoint, publicKey)
  return { note: body.checkpoint, last_id, hash: Buffer.from(hash).toString('hex') }
}

/** Verification alone sees nothing; with the checkpoint each way of verifying names the same entry. */
async function expectNoticedByCheckpointOnly(target: Target, kept: Kept, fault: Fault): Promise<void> {
  const server = scene.server()
  const expected = { valid: false, ...fault }
  expect((await server.call(target.secret, 'GET', '/v1/audit/verify')).body.valid).toBe(true)
  expect((await verify(target)).valid).toBe(true)
  const answer = await server.call(target.secret, 'GET', `/v1/audit/verify?checkpoint=${encodeURIComponent(kept.note)}`)
  expect([answer.status, told(answer.body)]).toEqual([200, expected])
  expect(told(await verify(target, kept.note))).toEqual(expected)
  if (hasSecondVerifier) {
    expect((await verifySecondly(target)).valid).toBe(true)
    expect(told(await verifySecondly(target, kept.note))).toEqual(expected)
  }
  const lines = await exportLines(server, target)
  expect(await verifyExport(lines, { publicKey })).toMatchObject({ valid: true, trusted_key: true })
  const verdict = await verifyExport(lines, { publicKey, checkpoint: kept.note })
  expect([verdict.valid, verdict.broken_at]).toEqual([false, fault.broken_at])
}

async function exportLines(server: Server, target: Target): Promise<string[]> {
  const { status, body } = await server.call(target.secret, 'GET', '/v1/audit/export')
  expect(status).toBe(200)
  return String(body).split('\n').slice(0, -1)
}

/** Writes the log anew from an entry on, with the keys. */
async function rewriteFrom(target: Target, from: number): Promise<void> {
  const { tenant_id, auditKey } = target
  const { sql } = scene.service.services
  const chain = await readChain(sql, { tenant_id, after_id: from - 2, through_id: lastId(target), limit: 1_000 })
  const [before, ...rest] = chain
  const { head } = await readEvidence(sql, tenant_id)
  if (!before || !head) throw new Error('there is nothing to rewrite')
  let end: Head = { ...head, last_id: before.id, hash: before.hash, created_at: before.created_at }
  for (const [at, entry] of rest.entries()) {
    const draft = at === 0 ? { ...entry, actor: 'somebody else' } : entry
    const next = extendChain(end, [draft], { auditKey, now: Date.parse(entry.created_at) })
    const [made] = next.entries
    if (!made) throw new Error('nothing was chained')
    expect(Buffer.from(made.mac).equals(Buffer.from(entryMac(auditKey, made.hash)))).toBe(true)
    await run('update audit_log set actor = $3, hash = $4, mac = $5 where tenant_id = $1 and id = $2', [
      tenant_id,
      entry.id,
      made.actor,
      made.hash,
      made.mac,
    ])
    end = next.head
  }
  await run('update heads set hash = $2, mac = $3 where tenant_id = $1', [tenant_id, end.hash, end.mac])
}

describe.each(LOGS)('what needs a checkpoint that is kept elsewhere, in a log that is %s:', (log) => {
  it('a tail cut off, and the genuine head of then put back', async () => {
    const target = of(log)
    const kept = await takeCheckpoint(target)
    await remove(target.tenant_id, 'id > $2', lastId(target) - 4)
    await restoreTables(scene.sql, 'late', ['heads'])
    const fault = { reason: 'behind_checkpoint', broken_at: lastId(target) - 3 }
    await expectNoticedByCheckpointOnly(target, kept, fault)
  })

  it.each(['late', 'early'] as const)('an older snapshot restored whole (%s)', async (moment) => {
    const target = of(log)
    const kept = await takeCheckpoint(target)
    await scene.restore(moment)
    const [row] = await run('select max(id)::int as end from audit_log where tenant_id = $1', [target.tenant_id])
    await expectNoticedByCheckpointOnly(target, kept, { reason: 'behind_checkpoint', broken_at: row?.end + 1 })
  })

  it('everything written anew by someone who holds the keys', async () => {
    const target = of(log)
    const kept = await takeCheckpoint(target)
    await rewriteFrom(target, middleId(target))
    await expectNoticedByCheckpointOnly(target, kept, { reason: 'checkpoint_mismatch', broken_at: kept.last_id })
  })

  it('and even it says nothing of what was written anew after it', async () => {
    const target = of(log)
    await scene.restore('early')
    const kept = await takeCheckpoint(target)
    await scene.restore('final')
    await rewriteFrom(target, kept.last_id + 1)
    expect((await verify(target, kept.note)).valid).toBe(true)
    if (hasSecondVerifier) expect((await verifySecondly(target, kept.note)).valid).toBe(true)
  })
})

describe('a checkpoint', () => {
  it('of an honest log agrees with it, then and later', async () => {
    for (const target of [scene.whole, scene.purged]) {
      for (const moment of ['early', 'late', 'final'] as const) {
        await scene.restore(moment)
        const kept = await takeCheckpoint(target)
        await scene.restore('final')
        expect((await verify(target, kept.note)).valid).toBe(true)
        if (hasSecondVerifier) expect((await verifySecondly(target, kept.note)).valid).toBe(true)
        const lines = await exportLines(scene.server(), target)
        const verdict = await verifyExport(lines, { publicKey, checkpoint: kept.note })
        expect([verdict.valid, verdict.whole]).toEqual([true, true])
      }
    }
  })

  it('is not signed on a head that the server did not write', async () => {
    const { whole } = scene
    await editHead(whole, "created_at = created_at + interval '1 ms'")
    expect((await scene.server().call(whole.secret, 'GET', '/v1/audit/checkpoint')).status).toBe(500)
  })
})

describe('a running server whose database goes back', () => {
  let service: Service
  afterEach(() => service?.close())

  interface Running {
    server: Server
    target: Pick<Target, 'tenant_id' | 'secret' | 'key_id'>
    other: { secret: string; key_id: string }
  }

  async function start(): Promise<Running> {
    service = await startService()
    const people = []
    for (const name of ['attacked', 'other']) {
      const owner = await service.createTenant({ name })
      const { id } = (await owner.call('POST', '/v1/keys', { name: 'k' })).body
      people.push({ tenant_id: owner.tenant.tenant_id, secret: owner.secret, key_id: id as string })
    }
    const [target, other] = people
    if (!target || !other) throw new Error('no tenants')
    const server: Server = { ...serverOf(service), services: service.services, alarms: [], call: over(service) }
    return { server, target, other }
  }
  const over =
    ({ caller }: Service): Server['call'] =>
    (secret, method, path, body) =>
      caller(secret).call(method, path, body)

  const wrap = ({ server }: Running, { secret, key_id }: { secret: string; key_id: string }) =>
    server.call(secret, 'POST', `/v1/keys/${key_id}/wrap`, { dek: dek() })
  const sql = () => service.services.sql as unknown as Scene['sql']

  async function expectAlarm(
    running: Running,
    call: () => Promise<{ status: number; body: { code?: string } }>,
  ): Promise<void> {
    const { server, target, other } = running
    const { status, body } = await call()
    expect([status, body.code]).toEqual([500, 'E_AUDIT_NOT_WRITTEN'])
    expect(service.alarms).toMatchObject([{ tenant_id: target.tenant_id }])
    const health = await server.call('', 'GET', '/health')
    expect([health.status, health.body.status, health.body.database]).toEqual([503, 'degraded', 'alarm'])
    expect((await wrap(running, target)).status).toBe(500)
    expect((await server.call(target.secret, 'GET', '/v1/keys')).status).toBe(500)
    expect((await wrap(running, other)).status).toBe(200)
    expect((await server.call(other.secret, 'GET', '/v1/audit/verify')).body.valid).toBe(true)
    expect(service.alarms).toHaveLength(1)
  }

  it('raises an alarm at its next append when a tail was cut off and the genuine head of then put back', async () => {
    const running = await start()
    const { target } = running
    await copyTables(sql(), 'late')
    for (let at = 0; at < 3; at++) await wrap(running, target)
    await sql()`delete from audit_log where tenant_id = ${target.tenant_id} and id > 2`
    await sql().unsafe(
      `update heads set last_id = h.last_id, hash = h.hash, policy_version = h.policy_version,
      created_at = h.created_at, mac = h.mac from late.heads h where heads.tenant_id = h.tenant_id and h.tenant_id = $1`,
      [target.tenant_id],
    )
    await expectAlarm(running, () => wrap(running, target))
  })

  it.each([
    ['of plain entries', false],
    ['with changes of rights in it', true],
  ])('raises an alarm at its next append when an older snapshot %s was restored', async (_, withChanges) => {
    const running = await start()
    const { target, server } = running
    await copyTables(sql(), 'early')
    if (withChanges) await server.call(target.secret, 'POST', `/v1/keys/${target.key_id}/rotate`)
    await wrap(running, target)
    await restoreTables(sql(), 'early')
    await expectAlarm(running, () => wrap(running, target))
  })

  it('lets no call through that leaves no entry either', async () => {
    const running = await start()
    const { target, server } = running
    await copyTables(sql(), 'early')
    await server.call(target.secret, 'DELETE', `/v1/keys/${target.key_id}`)
    await restoreTables(sql(), 'early')
    await expectAlarm(running, () =>
      server.call(target.secret, 'POST', '/v1/hash', { key_id: target.key_id, value: 'x' }),
    )
  })

  it('raises an alarm at its next append when the log was written anew with the keys', async () => {
    const running = await start()
    const { target, server } = running
    await wrap(running, target)
    await copyTables(sql(), 'early')
    // What the same server writes in another history: genuine to the last byte, and not what it wrote.
    await wrap(running, target)
    await restoreTables(sql(), 'early')
    const rival = serverOf(service)
    await rival.call(target.secret, 'POST', `/v1/keys/${target.key_id}/export`)
    await rival.app.close()
    expect(server.alarms).toEqual([])
    await expectAlarm(running, () => wrap(running, target))
  })
})

it('the MACs of rows are the ones that their tables hold', async () => {
  // Guards the attacks above: they say nothing if the rows did not verify in the first place.
  for (const target of [scene.whole, scene.purged]) {
    const { rows } = await readEvidence(scene.service.services.sql, target.tenant_id)
    const macs = [
      ...(rows.tenant ? [[rows.tenant.mac, tenantMac(target.rowKey, rows.tenant)] as const] : []),
      ...rows.keys.map((row) => [row.mac, keyMac(target.rowKey, row)] as const),
      ...rows.versions.map((row) => [row.mac, keyVersionMac(target.rowKey, row)] as const),
      ...rows.apiKeys.map((row) => [row.mac, apiKeyMac(target.rowKey, row)] as const),
    ]
    expect(macs.length).toBeGreaterThan(15)
    for (const [stored, computed] of macs) expect(digest(stored)).toBe(digest(computed))
  }
})

function digest(bytes: Uint8Array): string {
  return createHash('sha256').update(bytes).digest('hex')
}
