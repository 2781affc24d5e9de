// Budgets of API keys, in each of the windows, alone and in batches, by several processes at once. What they answer and record is in
// sdk/contract/api-keys.ts too.
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { countBudgetUse } from '../../packages/server/src/core/store/budget-uses.js'
import { dek, ELEMENT } from '../support/audit/audit-scene.js'
import { backend } from '../support/database/database.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

/** A data directory of the embedded database has one process. */
const onSeveral = it.skipIf(backend() === 'embedded')

let service: Service
let owner: Caller
let key_id: string
let wrapped_key: string

beforeAll(async () => {
  service = await startService()
  owner = await service.createTenant({ envelope_only: false })
  key_id = (await owner.call('POST', '/v1/keys', { name: 'k' })).body.id
  wrapped_key = (await owner.call('POST', `/v1/keys/${key_id}/wrap`, { dek: dek() })).body.wrapped_key
})
afterAll(() => service?.close())
// No test takes as long, so none runs into the next minute.
beforeEach(async () => {
  const left = 60_000 - (Date.now() % 60_000)
  if (left < 5_000) await sleep(left)
})

const PERMISSIONS = ['encrypt', 'decrypt', 'hash']

async function newCaller(budgets: object): Promise<Caller & { id: string }> {
  const { status, body } = await owner.call('POST', '/v1/api-keys', { name: 'b', permissions: PERMISSIONS, budgets })
  expect([status, body.budgets]).toEqual([201, budgets])
  return { ...service.caller(body.secret), id: body.id }
}

const unwrap = (caller: Caller) => caller.call('POST', `/v1/keys/${key_id}/unwrap`, { wrapped_key })
const hash = (caller: Caller, value = 'x') => caller.call('POST', '/v1/hash', { key_id, value })
const batch = (caller: Caller, op: 'unwrap' | 'hash', count: number) =>
  caller.call('POST', '/v1/batch', {
    operations: Array.from({ length: count }, () =>
      op === 'hash' ? { op, key_id, value: 'x' } : { op, key_id, wrapped_key },
    ),
  })
const statuses = async (answer: ReturnType<typeof batch>) =>
  (await answer).body.results.map(({ status }: { status: number }) => status)

/** The entries about refusals of an API key. */
const refusalsOf = async ({ id }: { id: string }) =>
  (await owner.call('GET', '/v1/audit?action=budget.refused&limit=100')).body.logs
    .filter(({ actor }: { actor: string }) => actor === id)
    .map(({ metadata }: { metadata: object }) => metadata)

const policyVersion = async () => {
  const { tenant_id } = owner.tenant
  const [head] = await service.services.sql<{ policy_version: number }[]>`
    select policy_version from heads where tenant_id = ${tenant_id}`
  return head?.policy_version ?? 0
}

/** Has the database take the counts for those of windows before. */
const renew = ({ id }: { id: string }, window: 'minute' | 'day') =>
  window === 'minute'
    ? service.services.sql`update budget_uses set minute = minute - interval '1 minute' where api_key_id = ${id}`
    : service.services
        .sql`update budget_uses set minute = minute - interval '1 day', day = day - 1 where api_key_id = ${id}`

describe('a budget', () => {
  it('leaves as many unwraps as it says, and then answers 429 until its window ends', async () => {
    const caller = await newCaller({ unwrap: { per_minute: 2 } })
    expect([(await unwrap(caller)).status, (await unwrap(caller)).status]).toEqual([200, 200])
    const refused = await unwrap(caller)
    expect(refused).toMatchObject({ status: 429, body: { code: 'E_BUDGET', title: 'Budget Exceeded' } })
    expect(refused.body.detail).toContain('for unwraps and decrypts, 2 a minute,')
    const seconds = Number(refused.headers.get('retry-after'))
    expect(seconds >= 1 && seconds <= 60, String(seconds)).toBe(true)
    expect(refused.body.retry_after).toBe(seconds)
    expect((await hash(caller)).status).toBe(200)
    await renew(caller, 'minute')
    expect((await unwrap(caller)).status).toBe(200)
  })

  it('counts decrypts as unwraps, and no rewraps and wraps', async () => {
    const caller = await newCaller({ unwrap: { per_day: 1 } })
    const { body } = await caller.call('POST', '/v1/encrypt', { key_id, plaintext: 'x' })
    expect((await caller.call('POST', `/v1/keys/${key_id}/rewrap`, { wrapped_key })).status).toBe(200)
    expect((await caller.call('POST', '/v1/decrypt', body)).status).toBe(200)
    expect((await caller.call('POST', '/v1/decrypt', body)).body.code).toBe('E_BUDGET')
    expect((await caller.call('POST', `/v1/keys/${key_id}/wrap`, { dek: dek() })).status).toBe(200)
  })

  it('counts index secrets as unwraps, in a batch too', async () => {
    const caller = await newCaller({ unwrap: { per_day: 3 } })
    const indexSecret = () => caller.call('POST', `/v1/keys/${key_id}/index-secret`, { name: 'x' })
    expect((await indexSecret()).status).toBe(200)
    const operations = Array.from({ length: 3 }, () => ({ op: 'indexSecret', key_id, name: 'x' }))
    expect(await statuses(caller.call('POST', '/v1/batch', { operations }))).toEqual([200, 200, 429])
    expect((await indexSecret()).body.code).toBe('E_BUDGET')
    expect((await unwrap(caller)).body.code).toBe('E_BUDGET')
    expect((await hash(caller)).status).toBe(200)
  })

  it('counts each element of a blind hash as a hash, and refuses a call that it does not cover', async () => {
    const caller = await newCaller({ hash: { per_day: 7 } })
    const elements = (count: number) => Array.from({ length: count }, () => ELEMENT)
    const blindHash = (count: number) => caller.call('POST', '/v1/hash/blind', { key_id, elements: elements(count) })
    expect((await blindHash(2)).status).toBe(200)
    const operations = [
      { op: 'blind_hash', key_id, elements: elements(3) },
      { op: 'hash', key_id, value: 'x' },
      { op: 'blind_hash', key_id, elements: elements(2) },
      { op: 'hash', key_id, value: 'x' },
    ]
    expect(await statuses(caller.call('POST', '/v1/batch', { operations }))).toEqual([200, 200, 429, 200])
    expect((await blindHash(1)).body.code).toBe('E_BUDGET')
    expect((await hash(caller)).status).toBe(429)
    expect((await unwrap(caller)).status).toBe(200)
    expect(await refusalsOf(caller)).toEqual([{ limit: 7, operation: 'hash', window: 'day' }])
  })

  it('of a day outlasts the minute, and what the minute refused is not taken from it', async () => {
    const caller = await newCaller({ hash: { per_minute: 2, per_day: 3 } })
    expect(await statuses(batch(caller, 'hash', 5))).toEqual([200, 200, 429, 429, 429])
    await renew(caller, 'minute')
    expect(await statuses(batch(caller, 'hash', 2))).toEqual([200, 429])
    await renew(caller, 'minute')
    const refused = await hash(caller)
    expect([refused.status, Number(refused.headers.get('retry-after')) <= 86_400]).toEqual([429, true])
    expect(refused.body.detail).toContain('for hashes, 3 a day,')
    await renew(caller, 'day')
    expect((await hash(caller)).status).toBe(200)
  })

  it('tells each operation of a batch that it refuses when it is renewed', async () => {
    const caller = await newCaller({ unwrap: { per_minute: 1 }, hash: { per_day: 1 } })
    for (const [op, seconds] of [
      ['unwrap', 60],
      ['hash', 86_400],
    ] as const) {
      const left = seconds - ((Date.now() / 1_000) % seconds)
      const { headers, body } = await batch(caller, op, 3)
      expect(headers.get('retry-after')).toBeNull()
      const [opened, ...refused] = body.results.map(
        (result: { body: { retry_after?: number } }) => result.body.retry_after,
      )
      expect(opened).toBeUndefined()
      expect(refused).toHaveLength(2)
      for (const one of refused) expect(Math.abs(one - left), `${one} of ${left}`).toBeLessThan(5)
    }
  })

  it('is recorded once in each window that was exceeded, whoever asked for how much', async () => {
    const caller = await newCaller({ unwrap: { per_minute: 1, per_day: 2 } })
    const minute = { limit: 1, operation: 'unwrap', window: 'minute' }
    await unwrap(caller)
    for (let round = 0; round < 3; round++) await unwrap(caller)
    expect(await statuses(batch(caller, 'unwrap', 3))).toEqual([429, 429, 429])
    expect(await refusalsOf(caller)).toEqual([minute])
    await renew(caller, 'minute')
    expect(await statuses(batch(caller, 'unwrap', 2))).toEqual([200, 429])
    expect(await refusalsOf(caller)).toEqual([minute, minute])
    await renew(caller, 'minute')
    for (let round = 0; round < 2; round++) expect((await unwrap(caller)).status).toBe(429)
    const day = { limit: 2, operation: 'unwrap', window: 'day' }
    expect(await refusalsOf(caller)).toEqual([minute, day, minute, minute])
    expect((await owner.call('GET', '/v1/audit/verify')).body.valid).toBe(true)
  })

  it('is counted in the window in which it is taken, not in that of the beginning of a transaction', async () => {
    const { id } = await newCaller({ unwrap: { per_minute: 3 } })
    const left = await service.services.sql.begin(async (sql) => {
      await sql`select pg_catalog.now()`
      await sleep(2_100)
      const request = { tenant_id: owner.tenant.tenant_id, api_key_id: id, kind: 'unwrap', calls: 1 } as const
      const use = await countBudgetUse(sql, { ...request, per_minute: 3, per_day: 9, marks: true })
      const [row] = await sql<{ by_clock: number; by_beginning: number }[]>`
        select 60 - extract(second from pg_catalog.clock_timestamp())::float8 as by_clock,
               60 - extract(second from pg_catalog.now())::float8 as by_beginning`
      return { ...row, ends_in: use.minute_ends_in }
    })
    expect(left.by_beginning).toBeGreaterThan(left.by_clock ?? 0)
    expect(left.ends_in).toBeLessThanOrEqual(Math.ceil((left.by_beginning ?? 0) - 2))
  })

  it('is not taken for calls that are refused for another reason before anything is opened', async () => {
    const caller = await newCaller({ unwrap: { per_minute: 1 } })
    const forged = Buffer.alloc(61, 1).toString('base64')
    for (let round = 0; round < 3; round++) {
      const { status } = await caller.call('POST', `/v1/keys/${key_id}/unwrap`, { wrapped_key: forged })
      expect(status).toBe(403)
    }
    expect((await unwrap(caller)).status).toBe(200)
  })

  onSeveral('holds for calls at the same time, by several processes', async () => {
    const caller = await newCaller({ unwrap: { per_day: 20 }, hash: { per_day: 20 } })
    const other = await startService({ database: service.database })
    const both: Caller[] = [caller, other.caller(caller.secret)]
    for (const call of [unwrap, hash]) {
      const answers = await Promise.all(Array.from({ length: 60 }, (_, at) => call(both[at % 2] ?? caller)))
      expect(answers.filter(({ status }) => status === 200)).toHaveLength(20)
      expect(answers.filter(({ body }) => body.code === 'E_BUDGET')).toHaveLength(40)
    }
    expect(await refusalsOf(caller)).toHaveLength(2)
    await other.close()
  })

  onSeveral('is taken once by a call that is decided again, because another process changed the tenant', async () => {
    const caller = await newCaller({ unwrap: { per_day: 2 }, hash: { per_day: 2 } })
    const other = await startService({ database: service.database })
    for (const call of [unwrap, hash, unwrap, hash]) {
      await other.caller(owner.secret).call('POST', '/v1/keys', { name: `${call.name} ${Math.random()}` })
      expect((await call(caller)).status).toBe(200)
    }
    expect((await unwrap(caller)).status).toBe(429)
    await other.close()
  })

  onSeveral('leaves its entry where the call is decided again and then refused for another reason', async () => {
    const name = `own ${Math.random()}`
    const own = (await owner.call('POST', '/v1/keys', { name })).body.id
    const wrapped = (await owner.call('POST', `/v1/keys/${own}/wrap`, { dek: dek() })).body.wrapped_key
    const caller = await newCaller({ unwrap: { per_minute: 1 } })
    await unwrap(caller)
    const other = await startService({ database: service.database })
    const elsewhere = other.caller(owner.secret)
    await elsewhere.call('DELETE', `/v1/keys/${own}`)
    await elsewhere.call('POST', `/v1/keys/${own}/destroy`, { confirm: name })
    const { status } = await caller.call('POST', `/v1/keys/${own}/unwrap`, { wrapped_key: wrapped })
    expect(status).toBe(409)
    expect(await refusalsOf(caller)).toEqual([{ limit: 1, operation: 'unwrap', window: 'minute' }])
    await other.close()
  })

  onSeveral('is taken for what a later decision opens, where the first was made on an older state', async () => {
    const other = await startService({ database: service.database })
    const elsewhere = (caller: Caller) => other.caller(caller.secret)
    const own = (await owner.call('POST', '/v1/keys', { name: `own ${Math.random()}` })).body.id
    const wrap = async () => (await owner.call('POST', `/v1/keys/${own}/wrap`, { dek: dek() })).body.wrapped_key
    const first = await wrap()
    const opener = await newCaller({ unwrap: { per_day: 3 } })
    const opens = (keys: readonly string[]) => ({
      operations: keys.map((one) => ({ op: 'unwrap', key_id: own, wrapped_key: one })),
    })
    expect(await statuses(elsewhere(opener).call('POST', '/v1/batch', opens([first])))).toEqual([200])
    await owner.call('POST', `/v1/keys/${own}/rotate`)
    const second = await wrap()
    const answer = elsewhere(opener).call('POST', '/v1/batch', opens([first, second, second, second, second]))
    expect(await statuses(answer)).toEqual([200, 200, 429, 429, 429])

    const hasher = await newCaller({ hash: { per_day: 3 } })
    const hashes = (keys: readonly string[]) => ({
      operations: keys.map((one) => ({ op: 'hash', key_id: one, value: 'x' })),
    })
    expect(await statuses(elsewhere(hasher).call('POST', '/v1/batch', hashes([key_id])))).toEqual([200])
    const fresh = (await owner.call('POST', '/v1/keys', { name: `fresh ${Math.random()}` })).body.id
    const mixed = elsewhere(hasher).call('POST', '/v1/batch', hashes([key_id, fresh, fresh, fresh]))
    expect(await statuses(mixed)).toEqual([200, 200, 429, 429])
    expect([await refusalsOf(opener), await refusalsOf(hasher)]).toMatchObject([[{ limit: 3 }], [{ limit: 3 }]])
    await other.close()
  })

  onSeveral('can be raised once it is used up, and at once, whatever was refused meanwhile', async () => {
    const caller = await newCaller({ unwrap: { per_day: 1 } })
    const other = await startService({ database: service.database })
    expect(await statuses(batch(caller, 'unwrap', 9))).toEqual([200, ...Array(8).fill(429)])
    const raise = { budgets: { unwrap: { per_day: 9 } } }
    await other.caller(owner.secret).call('PATCH', `/v1/api-keys/${caller.id}`, raise)
    expect((await unwrap(caller)).status).toBe(200)
    await other.close()
  })

  it('is counted among the refusals that the tenant is told of', async () => {
    const caller = await newCaller({ unwrap: { per_day: 1 } })
    await batch(caller, 'unwrap', 4)
    const { body } = await owner.call('GET', '/v1/usage')
    expect(body.unrecorded).toContainEqual(
      expect.objectContaining({ api_key_id: caller.id, kind: 'budget_refused', count: 3 }),
    )
  })
})

describe('an API key that expires when it is over a budget', () => {
  onSeveral('does so at once, in every process and by an entry of the server, and is resumed by a person', async () => {
    const caller = await newCaller({ hash: { per_day: 2 }, when_over: 'expire' })
    const other = await startService({ database: service.database })
    const elsewhere = other.caller(caller.secret)
    expect([(await hash(elsewhere)).status, (await hash(caller)).status]).toEqual([200, 200])
    const over = await hash(caller)
    expect([over.body.code, over.headers.get('retry-after'), over.body.retry_after]).toEqual([
      'E_BUDGET',
      null,
      undefined,
    ])
    expect(over.body.detail).toContain('2 a day, is used up; the API key expires with it')
    expect([(await hash(caller)).status, (await hash(elsewhere)).status]).toEqual([401, 401])
    const { logs } = (await owner.call('GET', '/v1/audit?limit=2')).body
    expect(logs[0]).toMatchObject({ action: 'api_key.update', actor: 'system' })
    expect(logs[0].metadata).toMatchObject({ api_key_id: caller.id, changed: 'expires_at', expires_at_before: null })
    expect(logs[1]).toMatchObject({ action: 'budget.refused', actor: caller.id })
    const { body } = await owner.call('PATCH', `/v1/api-keys/${caller.id}`, { expires_at: null })
    expect(body.status).toBe('active')
    expect((await hash(caller)).body).toMatchObject({ code: 'E_BUDGET', retry_after: expect.any(Number) })
    await renew(caller, 'day')
    expect((await hash(elsewhere)).status).toBe(200)
    expect((await owner.call('GET', '/v1/audit/verify')).body.valid).toBe(true)
    await other.close()
  })

  onSeveral(
    'is said to be over it in the transaction in which it expires, and the next call does both if that fails',
    async () => {
      const caller = await newCaller({ unwrap: { per_minute: 1 }, when_over: 'expire' })
      await unwrap(caller)
      await service.services.sql.begin(async (transaction) => {
        await transaction`select from api_keys where api_key_id = ${caller.id} for update`
        expect((await unwrap(caller)).status).toBe(500)
      })
      expect(await refusalsOf(caller)).toEqual([])
      expect((await unwrap(caller)).body.code).toBe('E_BUDGET')
      expect((await unwrap(caller)).status).toBe(401)
      expect(await refusalsOf(caller)).toEqual([{ limit: 1, operation: 'unwrap', window: 'minute' }])
    },
  )

  onSeveral('does so once, whoever calls at the same time', async () => {
    const caller = await newCaller({ unwrap: { per_day: 20 }, when_over: 'expire' })
    const other = await startService({ database: service.database })
    const both: Caller[] = [caller, other.caller(caller.secret)]
    const version = await policyVersion()
    const answers = await Promise.all(Array.from({ length: 60 }, (_, at) => unwrap(both[at % 2] ?? caller)))
    expect(answers.filter(({ status }) => status === 200).length).toBeLessThanOrEqual(20)
    expect(await policyVersion()).toBe(version + 1)
    for (const { status } of answers) expect([200, 429, 401]).toContain(status)
    expect(await refusalsOf(caller)).toHaveLength(1)
    expect((await unwrap(caller)).status).toBe(401)
    expect((await owner.call('GET', '/v1/audit/verify')).body.valid).toBe(true)
    await other.close()
  })

  it('and does so where the budget is lowered below what was used, which is on record', async () => {
    const caller = await newCaller({ unwrap: { per_day: 90 } })
    await batch(caller, 'unwrap', 50)
    const budgets = { unwrap: { per_day: 20 }, when_over: 'expire' }
    await owner.call('PATCH', `/v1/api-keys/${caller.id}`, { budgets })
    expect((await unwrap(caller)).body.code).toBe('E_BUDGET')
    expect(await refusalsOf(caller)).toEqual([{ limit: 20, operation: 'unwrap', window: 'day' }])
    expect((await unwrap(caller)).status).toBe(401)
  })

  it('gives what the budget left to a batch', async () => {
    const caller = await newCaller({ unwrap: { per_day: 2 }, when_over: 'expire' })
    expect(await statuses(batch(caller, 'unwrap', 3))).toEqual([200, 200, 429])
    expect((await unwrap(caller)).status).toBe(401)
  })
})

describe('budgets', () => {
  it.each([
    ['nothing', {}],
    ['no limit', { unwrap: {} }],
    ['zero', { unwrap: { per_day: 0 } }],
    ['a part', { unwrap: { per_day: 1.5 } }],
    ['a text', { unwrap: { per_day: '1' } }],
    ['more than can be counted', { hash: { per_minute: 1_000_000_001 } }],
    ['another consequence', { hash: { per_minute: 1 }, when_over: 'ignore' }],
  ])('of %s are refused', async (_, budgets) => {
    const made = await owner.call('POST', '/v1/api-keys', { name: 'b', permissions: PERMISSIONS, budgets })
    expect([made.status, made.body.code]).toEqual([400, 'E_VALIDATION'])
  })

  it.each(['api_keys:manage', 'keys:export'])(
    'are refused with %s, which would lead around them',
    async (permission) => {
      const budgets = { unwrap: { per_day: 1 } }
      const made = await owner.call('POST', '/v1/api-keys', {
        name: 'b',
        permissions: ['decrypt', permission],
        budgets,
      })
      expect([made.status, made.body.code]).toEqual([400, 'E_VALIDATION'])
      const caller = await newCaller(budgets)
      const changed = await owner.call('PATCH', `/v1/api-keys/${caller.id}`, { permissions: ['decrypt', permission] })
      expect([changed.status, changed.body.code]).toEqual([400, 'E_VALIDATION'])
    },
  )

  it('are changed as a whole, and removed', async () => {
    const caller = await newCaller({ unwrap: { per_minute: 1, per_day: 9 } })
    await unwrap(caller)
    const raised = await owner.call('PATCH', `/v1/api-keys/${caller.id}`, { budgets: { unwrap: { per_minute: 2 } } })
    expect(raised.body.budgets).toEqual({ unwrap: { per_minute: 2 } })
    expect([(await unwrap(caller)).status, (await unwrap(caller)).status]).toEqual([200, 429])
    const removed = await owner.call('PATCH', `/v1/api-keys/${caller.id}`, { budgets: null })
    expect(removed.body).not.toHaveProperty('budgets')
    expect((await unwrap(caller)).status).toBe(200)
    const { logs } = (await owner.call('GET', '/v1/audit?action=api_key.update&limit=1')).body
    expect(logs[0].metadata).toMatchObject({ changed: 'budgets', budgets_before: '{"unwrap":{"per_minute":2}}' })
    expect(logs[0].metadata).not.toHaveProperty('budgets')
  })
})
