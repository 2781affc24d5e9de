// Attacks on the chain: entries are removed, inserted, exchanged or reordered, or the head at its end is changed.
import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { type AuditEntry, entryHash } from '../../../packages/audit/src/formats/chain.js'
import { entryMac, headMac } from '../../../packages/server/src/core/audit/formats/chain.js'
import { readEvidence } from '../../../packages/server/src/core/store/audit-evidence.js'
import { copyTables, restoreTables, type Target } from '../../support/audit/audit-scene.js'
import {
  type Expectation,
  editHead,
  expectNoticed,
  type Fault,
  firstId,
  LOGS,
  type Log,
  lastId,
  middleId,
  of,
  remove,
  run,
  scene,
  useScene,
} from './attacks.js'

useScene()

interface Structural extends Expectation {
  title: string
  attack: (target: Target, other: Target) => Promise<unknown>
  reason: string
  broken_at: (target: Target, other: Target) => number
}

const headTo = (tenant_id: string, id: number) =>
  run(
    `update heads set last_id = e.id, hash = e.hash, created_at = e.created_at, mac = e.mac
     from audit_log e where heads.tenant_id = $1 and e.tenant_id = $1 and e.id = $2`,
    [tenant_id, id],
  )
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

/** Continues the chain as an attacker without the keys can: the hashes are right, the MACs are those that `mac` gives. */
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

/** Dates the last entry before the one before it, as someone who has the keys can: hash, MAC and head are right. */
async function dateBack(target: Target): Promise<void> {
  const [before, last] = target.entries.slice(-2)
  const { head } = await readEvidence(scene.service.services.sql, target.tenant_id)
  if (!before || !last || !head) throw new Error('the log is too short')
  const created_at = new Date(Date.parse(before.created_at) - 1).toISOString()
  const hash = entryHash(before.hash, { ...last, created_at } as unknown as AuditEntry)
  await run('update audit_log set created_at = $3, hash = $4, mac = $5 where tenant_id = $1 and id = $2', [
    target.tenant_id,
    last.id,
    created_at,
    hash,
    entryMac(target.auditKey, last.id, hash),
  ])
  await run('update heads set created_at = $2, hash = $3, mac = $4 where tenant_id = $1', [
    target.tenant_id,
    created_at,
    hash,
    headMac(target.auditKey, { ...head, created_at, hash }),
  ])
}

/** Joins two genuine histories: the entries of one, and the head that the server wrote at the same place in the other. */
async function joinHistories(target: Target): Promise<void> {
  const wrap = async () => {
    const body = { dek: Buffer.alloc(32, 1).toString('base64') }
    const { status } = await scene.server().call(target.secret, 'POST', `/v1/keys/${target.key_id}/wrap`, body)
    if (status !== 200) throw new Error(`a wrap was answered ${status}`)
  }
  await run('drop schema if exists rival cascade')
  await wrap()
  await copyTables(scene.sql, 'rival')
  await scene.restore('final')
  await scene.server().call(target.secret, 'POST', `/v1/keys/${target.key_id}/export`)
  await restoreTables(scene.sql, 'rival', ['heads'])
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
  ...[0, -7].map((id) => ({
    title: `a genuine entry has the id ${id} too`,
    attack: (target: Target) => copyAsLast(target, { tenant_id: target.tenant_id, id: middleId(target) }, id),
    reason: 'entry_before_first',
    broken_at: () => id,
  })),
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
    title: 'its last entry is dated back by someone who holds the keys',
    attack: dateBack,
    reason: 'time_went_back',
    broken_at: lastId,
  },
  {
    title: 'its head is the one of another history that the server wrote',
    attack: joinHistories,
    reason: 'head_mismatch',
    broken_at: (target) => lastId(target) + 2,
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

/** The fault that an exchange of two chains shows as, which depends on which of them has a mark. */
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
