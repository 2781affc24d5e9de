// One statement that appends to the logs of many tenants: whatever is wrong with one tenant, the others' entries are written.
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createClock, WrongClockError } from '../../packages/server/src/core/audit/append/clock.js'
import type { Chained } from '../../packages/server/src/core/audit/append/send-appends.js'
import { createSeparateAppends, createSharedAppends } from '../../packages/server/src/core/audit/append/send-appends.js'
import { type EntryDraft, extendChain } from '../../packages/server/src/core/audit/formats/chain.js'
import { findHead, lockHead } from '../../packages/server/src/core/store/audit.js'
import { isRolledBack, type Sql } from '../../packages/server/src/core/store/db.js'
import { backend } from '../support/database/database.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

const TENANTS = 4
/** A tenant's creation has an entry, and so has that of its key. */
const FIRST_ENTRIES = 2

describe('one statement for many tenants', () => {
  let service: Service
  let owners: Caller[]
  let keys: string[]
  let sql: Sql
  /** statements sent by the appends of a test */
  let sent: number
  const clock = createClock({ now: Date.now, toleranceMs: 60_000 })

  beforeAll(async () => {
    service = await startService()
  })
  afterAll(() => service.close())
  beforeEach(async () => {
    sent = 0
    sql = counting()
    owners = await Promise.all(Array.from({ length: TENANTS }, () => service.createTenant()))
    keys = await Promise.all(
      owners.map(async (owner) => (await owner.call('POST', '/v1/keys', { name: 'k' })).body.id as string),
    )
  })

  /** The database; `answer` may keep back the answer to a statement, which is counted from 0. */
  function counting(answer: (statement: number) => Promise<never> | undefined = () => undefined): Sql {
    return new Proxy(service.services.sql, {
      apply(target, self, args) {
        const query = Reflect.apply(target, self, args) as Promise<unknown>
        const kept = answer(sent++)
        return kept ? query.then(() => kept) : query
      },
    })
  }

  /** Chains entries to the head in the database. */
  async function chain(owner: Caller, entries = 1, time = Date.now()): Promise<Chained> {
    const { tenant } = owner
    const state = await service.services.states.find(tenant.tenant_id)
    const previous = await findHead(service.services.sql, tenant.tenant_id)
    if (!state || !previous) throw new Error('the tenant was not found')
    const draft: EntryDraft = {
      action: 'key.wrap',
      key_id: keys[owners.indexOf(owner)] ?? '',
      key_version: 1,
      actor: tenant.api_key.id,
      ip_address: null,
      metadata: '{"on_behalf_of":"a \\"quoted\\" {text}, with a \\\\ too"}',
    }
    const drafts = Array.from({ length: entries }, () => draft)
    const extended = extendChain(previous, drafts, { auditKey: state.auditKey, now: time })
    return { previous, next: extended.head, entries: extended.entries, time }
  }

  const chainAll = () => Promise.all(owners.map((owner, at) => chain(owner, at + 1)))
  const lengths = () =>
    Promise.all(
      owners.map(async ({ tenant }) => {
        const [row] = await service.services.sql<{ entries: number; last_id: number; counted: number }[]>`
          select (select count(*)::integer from audit_log where tenant_id = ${tenant.tenant_id}) as entries,
                 (select sum(entries)::integer from audit_counts where tenant_id = ${tenant.tenant_id}) as counted,
                 last_id::integer from heads where tenant_id = ${tenant.tenant_id}`
        if (!row || row.entries !== row.last_id || row.entries !== row.counted) return `not one: ${JSON.stringify(row)}`
        return row.entries - FIRST_ENTRIES
      }),
    )

  /** Each tenant's chain is checked by a server that did not write it. */
  async function expectValid(): Promise<void> {
    for (const owner of owners) {
      expect((await owner.call('GET', '/v1/audit/verify')).body).toMatchObject({ valid: true })
    }
  }

  it('appends for all of them, and counts', async () => {
    const { append } = createSharedAppends({ sql, clock })
    expect(await Promise.all((await chainAll()).map(append))).toEqual([true, true, true, true])
    expect(sent).toBe(1)
    expect(await lengths()).toEqual([1, 2, 3, 4])
    await expectValid()
  })

  it('leaves out a tenant whose head is another one', async () => {
    const { append } = createSharedAppends({ sql, clock })
    const outdated = await chainAll()
    expect(await append(await chain(owners[1] as Caller, 5))).toBe(true)
    expect(await Promise.all(outdated.map(append))).toEqual([true, false, true, true])
    expect(await lengths()).toEqual([1, 5, 3, 4])
    await expectValid()
  })

  it.each(['last_id', 'policy_version', 'hash', 'mac'])(
    'leaves out a tenant whose %s alone is another one',
    async (column) => {
      const { append } = createSharedAppends({ sql, clock })
      const [first, second] = (await chainAll()) as [Chained, Chained]
      const { [column as 'last_id']: value } = second.previous as unknown as Record<string, number | Uint8Array>
      const other = typeof value === 'number' ? value + 1 : new Uint8Array(32)
      const changed = { ...second, previous: { ...second.previous, [column]: other } }
      expect(await Promise.all([first, changed].map(append))).toEqual([true, false])
      expect(await lengths()).toEqual([1, 0, 0, 0])
    },
  )

  // One back end serves all connections of the embedded database, so nothing can be locked beside it.
  it.skipIf(backend() === 'embedded')(
    'leaves out a tenant whose head is locked, and does not wait for it',
    async () => {
      const { append } = createSharedAppends({ sql, clock })
      const chained = await chainAll()
      await service.services.sql.begin(async (transaction) => {
        await lockHead(transaction, owners[2]?.tenant.tenant_id ?? '')
        expect(await Promise.all(chained.map(append))).toEqual([true, true, false, true])
      })
      expect(await lengths()).toEqual([1, 2, 0, 4])
    },
  )

  it.skipIf(backend() === 'embedded')('does not wait for a locked head if it is for one tenant either', async () => {
    const { append } = createSeparateAppends({ sql, clock })
    const [first, second] = (await chainAll()) as [Chained, Chained]
    await service.services.sql.begin(async (transaction) => {
      await lockHead(transaction, owners[0]?.tenant.tenant_id ?? '')
      expect(await Promise.all([first, second].map(append))).toEqual([false, true])
    })
    expect(await append(first)).toBe(true)
    expect(await lengths()).toEqual([1, 2, 0, 0])
  })

  it('makes one of two appends of the same tenant, and says which', async () => {
    const { append } = createSharedAppends({ sql, clock })
    const chained = [
      await chain(owners[0] as Caller),
      await chain(owners[0] as Caller, 2),
      await chain(owners[1] as Caller),
    ]
    const made = await Promise.all(chained.map(append))
    expect(made.slice(0, 2).sort()).toEqual([false, true])
    expect(await lengths()).toEqual([made[0] ? 1 : 2, 1, 0, 0])
    await expectValid()
  })

  it('fails alone for a tenant whose rows refuse the entry, and nothing of it is written', async () => {
    const { append } = createSharedAppends({ sql, clock })
    const chained = await chainAll()
    const { tenant_id } = (owners[3] as Caller).tenant
    await service.services.sql`
      insert into audit_log (tenant_id, id, action, actor, created_at, hash, mac)
      values (${tenant_id}, ${FIRST_ENTRIES + 1}, 'key.wrap', 'somebody', now(), '', '')`
    const ended = await Promise.allSettled(chained.map(append))
    expect(ended.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled', 'rejected'])
    expect(isRolledBack((ended[3] as PromiseRejectedResult).reason)).toBe(true)
    expect((await lengths()).slice(0, 3)).toEqual([1, 2, 3])
    expect((await findHead(service.services.sql, tenant_id))?.last_id).toBe(FIRST_ENTRIES)
  })

  it('writes nothing if the clocks differ too much', async () => {
    const wrong = createClock({ now: () => Date.now() + 120_000, toleranceMs: 60_000 })
    const { append } = createSharedAppends({ sql, clock: wrong })
    const chained = await Promise.all(owners.map((owner) => chain(owner, 1, wrong.read({ created_at: '' }))))
    const ended = await Promise.allSettled(chained.map(append))
    expect(ended.map((end) => end.status === 'rejected' && end.reason instanceof WrongClockError)).toEqual([
      true,
      true,
      true,
      true,
    ])
    expect(await lengths()).toEqual([0, 0, 0, 0])
  })

  it('gathers while one runs, and a long append has a statement of its own', async () => {
    const { append, gathering } = createSharedAppends({ sql, clock })
    const [first, ...rest] = await chainAll()
    const long = await chain(owners[1] as Caller, 300)
    const ends = [append(first as Chained)]
    await Promise.resolve()
    await new Promise(process.nextTick)
    expect(gathering()).toBeInstanceOf(Promise)
    ends.push(append(long), ...rest.slice(1).map(append))
    expect(await Promise.all(ends)).toEqual([true, true, true, true])
    expect(sent).toBe(3)
    await gathering()
    expect(gathering()).toBeUndefined()
    expect(await lengths()).toEqual([1, 300, 3, 4])
  })

  it('waits a quarter of a second for the answer to the one before it, and no longer', async () => {
    const { append } = createSharedAppends({
      sql: counting((at) => (at === 0 ? new Promise(() => undefined) : undefined)),
      clock,
    })
    const [first, ...rest] = await chainAll()
    let isAnswered = false
    void append(first as Chained).then(() => {
      isAnswered = true
    })
    await new Promise((resolve) => setImmediate(resolve))
    expect(await Promise.all(rest.map(append))).toEqual([true, true, true])
    expect([sent, isAnswered]).toEqual([2, false])
    await expect.poll(lengths).toEqual([1, 2, 3, 4])
  })
})
