// A tenant whose keys and API keys change without pause: the changes cause no refusals, no change waits alone for another one's
// commit, and what was revoked is refused once the revocation is acknowledged. On PostgreSQL by two servers.

import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { draftEntry } from '../../packages/server/src/core/runner/entry-drafts.js'
import type { Decision, Operation } from '../../packages/server/src/core/runner/operation.js'
import { performAsSystem, systemCaller } from '../../packages/server/src/core/runner/perform.js'
import { watchesOf } from '../../packages/server/src/guard/watch/head-watch.js'
import { backend } from '../support/database/database.js'
import { insertFrom } from '../support/database/migrations.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

let services: Service[]
let owner: Caller
/** the owner's callers, one per server */
let owners: Caller[]
let tenant_id: string

beforeAll(async () => {
  const first = await startService()
  services = [first]
  if (backend() === 'postgres') services.push(await startService({ database: first.database }))
  owner = await first.createTenant()
  tenant_id = owner.tenant.tenant_id
  owners = services.map(({ caller }) => caller(owner.secret))
})
afterAll(async () => {
  for (const service of services) await service.close()
})

const dek = () => randomBytes(32).toString('base64')
const unique = (what: string) => `${what} ${randomBytes(6).toString('hex')}`
const at = (index: number): { service: Service; call: Caller['call'] } => {
  const service = services[index % services.length]
  const caller = owners[index % owners.length]
  if (!service || !caller) throw new Error('the servers did not start')
  return { service, call: caller.call }
}
const newKey = async (): Promise<string> => (await owner.call('POST', '/v1/keys', { name: unique('key') })).body.id
const newApiKey = async (): Promise<{ id: string; secret: string }> =>
  (await owner.call('POST', '/v1/api-keys', { name: unique('client'), permissions: ['encrypt'] })).body

/** Changes the tenant from several clients without a pause until it is stopped; returns the failed changes, and the number of those made. */
function changeWithoutPause() {
  const refused: unknown[] = []
  let changes = 0
  let isOver = false
  const loop = async (
    index: number,
    change: (call: Caller['call']) => Promise<{ status: number; body: unknown }[]>,
  ) => {
    while (!isOver) {
      for (const { status, body } of await change(at(index).call)) {
        if (status >= 300) refused.push(body)
        changes += 1
      }
    }
  }
  const loops = [
    ...[0, 1, 2, 3].map((index) =>
      loop(index, async (call) => [await call('POST', '/v1/keys', { name: unique('key') })]),
    ),
    loop(1, async (call) => {
      const made = await call('POST', '/v1/api-keys', { name: unique('client'), permissions: ['encrypt'] })
      const path = `/v1/api-keys/${made.body.id}`
      return [made, await call('PATCH', path, { name: 'x' }), await call('DELETE', path)]
    }),
  ]
  return {
    changes: () => changes,
    async stop(): Promise<unknown[]> {
      isOver = true
      await Promise.all(loops)
      return refused
    },
  }
}

describe('while keys and API keys of a tenant change without pause', () => {
  it('no call of any kind is refused, on any server', { timeout: 60_000 }, async () => {
    const key_id = await newKey()
    const change = changeWithoutPause()
    const refused: unknown[] = []
    let done = 0
    const client = async (index: number) => {
      const { call } = at(index)
      while (done < 240 || change.changes() < 60) {
        const calls = [
          () => call('POST', `/v1/keys/${key_id}/wrap`, { dek: dek() }),
          () => call('POST', '/v1/hash', { key_id, value: 'x' }),
          () => call('POST', '/v1/batch', { operations: [{ op: 'wrap', key_id, dek: dek() }] }),
          () => call('GET', `/v1/keys/${key_id}`),
        ]
        const answer = await calls[done++ % calls.length]?.()
        if (answer?.status !== 200) refused.push(answer)
      }
    }
    await Promise.all(Array.from({ length: 8 }, (_, index) => client(index)))
    expect([...refused, ...(await change.stop())]).toEqual([])
    expect((await owner.call('GET', '/v1/audit/verify')).body).toMatchObject({ valid: true })
  })

  it('what was revoked or disabled is refused from the moment that it was acknowledged', {
    timeout: 60_000,
  }, async () => {
    const change = changeWithoutPause()
    try {
      for (let round = 0; round < 8; round++) {
        const [tell, other] = [at(round), at(round + 1)]
        const key_id = await newKey()
        const client = await newApiKey()
        const { call } = other.service.caller(client.secret)
        const uses = [
          () => call('POST', `/v1/keys/${key_id}/wrap`, { dek: dek() }),
          () => call('POST', '/v1/hash', { key_id, value: 'x' }),
        ]
        const statuses = async () => (await Promise.all(uses.map((use) => use()))).map(({ status }) => status)
        expect([round, ...(await statuses())]).toEqual([round, 200, 200])
        if (round % 2 === 0) {
          expect((await tell.call('DELETE', `/v1/api-keys/${client.id}`)).status).toBe(204)
          expect([round, ...(await statuses())]).toEqual([round, 401, 401])
        } else {
          expect((await tell.call('DELETE', `/v1/keys/${key_id}`)).status).toBe(204)
          expect([round, ...(await statuses())]).toEqual([round, 409, 409])
        }
      }
    } finally {
      expect(await change.stop()).toEqual([])
    }
  })
})

describe('a decision that a change always overtakes', () => {
  /** Counts its decisions; each of them that is not made under the lock is overtaken by a change before it can be committed. */
  function overtaken(decision: Decision<string>, change: () => Promise<unknown>) {
    const made = { under: [] as string[] }
    const operation: Operation<string> = async ({ sql, services }) => {
      const isLocked = sql !== services.sql
      made.under.push(isLocked ? 'lock' : 'none')
      if (!isLocked) await change()
      return decision
    }
    return { made, operation }
  }

  it('is made under the lock the third time, where it only reads', async () => {
    const { service } = at(0)
    const { made, operation } = overtaken({ entries: [], release: () => 'read' }, newKey)
    expect(await performAsSystem(service.services, tenant_id, operation)).toBe('read')
    expect(made.under).toEqual(['none', 'none', 'lock'])
  })

  it.runIf(backend() === 'postgres')(
    'is made under the lock by the third time, where another server changes',
    async () => {
      const { service } = at(1)
      const { made, operation } = overtaken({ entries: [{ action: 'key.wrap' }], release: () => 'written' }, newKey)
      expect(await performAsSystem(service.services, tenant_id, operation)).toBe('written')
      expect(made.under.at(-1)).toBe('lock')
      expect(made.under.length).toBeLessThanOrEqual(3)
    },
  )

  it('is refused under the lock where the change took its ground away', async () => {
    const key_id = await newKey()
    const { service, call } = at(1)
    let decisions = 0
    const operation: Operation<string> = async ({ state }) => {
      decisions += 1
      const key = await state.findKey(key_id)
      if (key?.row.status !== 'active') return { entries: [], release: () => 'refused' }
      await call('DELETE', `/v1/keys/${key_id}`)
      return { entries: [{ action: 'key.wrap', key_id, key_version: 1 }], release: () => 'wrapped' }
    }
    expect(await performAsSystem(service.services, tenant_id, operation)).toBe('refused')
    expect(decisions).toBeLessThanOrEqual(3)
    expect((await owner.call('GET', `/v1/audit?key_id=${key_id}&action=key.wrap`)).body.total).toBe(0)
  })
})

describe('changes that wait together', () => {
  /** Makes the next changes at a server wait together; returns what ends that. */
  async function holdTurn({ services: { committer, states } }: Service): Promise<() => Promise<void>> {
    const state = await states.find(tenant_id)
    if (!state) throw new Error('the tenant is gone')
    let end: () => void = () => undefined
    const held = new Promise<void>((resolve) => {
      end = resolve
    })
    // Decided again before its transaction begins, because an embedded database has a single connection.
    const entries = [draftEntry({ action: 'key.wrap' }, systemCaller({ actor: 'system' }))]
    const decide = () => held.then(() => ({ entries: [] }))
    const { auditKey } = state
    const turn = committer.append({ tenant_id, auditKey, entries, policy_version: Number.NaN, decide })
    return () => {
      end()
      return turn
    }
  }

  const commits = async () => {
    const text = (await owner.call('GET', '/metrics')).body
    return Number(/^eaas_audit_batch_entries_count (\d+)$/m.exec(text)?.[1])
  }

  it('are committed together', async () => {
    await newKey()
    const before = await commits()
    const answers = await Promise.all(
      Array.from({ length: 24 }, () => owner.call('POST', '/v1/keys', { name: unique('key') })),
    )
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 201))
    expect((await commits()) - before).toBeLessThan(20)
    expect((await owner.call('GET', '/v1/audit/verify')).body).toMatchObject({ valid: true })
  })

  it('are decided one on top of the other: a name is given once, versions have no gap', async () => {
    const name = unique('contested')
    const created = await Promise.all(Array.from({ length: 6 }, () => owner.call('POST', '/v1/keys', { name })))
    expect(created.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409, 409, 409])
    const key_id = await newKey()
    const rotated = await Promise.all(Array.from({ length: 6 }, () => owner.call('POST', `/v1/keys/${key_id}/rotate`)))
    expect(rotated.map(({ body }) => body.current_version).sort()).toEqual([2, 3, 4, 5, 6, 7])
    const { body } = await owner.call('POST', `/v1/keys/${key_id}/wrap`, { dek: dek() })
    expect(body.key_version).toBe(7)
  })

  it('fail apart: a row that was deleted fails the change of that row, and nothing of what was with it stays', async () => {
    const doomed = await newKey()
    const { sql } = at(0).service.services
    await sql`create table doomed as select * from keys where key_id = ${doomed}`
    await sql`delete from keys where key_id = ${doomed}`
    const [before] = await sql<
      { policy_version: number }[]
    >`select policy_version from heads where tenant_id = ${tenant_id}`
    const endTurn = await holdTurn(at(0).service)
    const changes = Promise.all([
      ...Array.from({ length: 3 }, () => owner.call('POST', '/v1/keys', { name: unique('key') })),
      owner.call('POST', `/v1/keys/${doomed}/rotate`),
      ...Array.from({ length: 3 }, () => owner.call('POST', '/v1/keys', { name: unique('key') })),
    ])
    await expect.poll(() => at(0).service.services.committer.waiting()).toBe(8)
    await endTurn()
    const answers = await changes
    await sql.unsafe(insertFrom('keys', 'doomed'))
    await sql`drop table doomed`
    expect(answers.map(({ status }) => status)).toEqual([201, 201, 201, expect.any(Number), 201, 201, 201])
    expect(answers[3]?.status).toBeGreaterThanOrEqual(500)
    const [after] = await sql<
      { policy_version: number }[]
    >`select policy_version from heads where tenant_id = ${tenant_id}`
    expect(Number(after?.policy_version) - Number(before?.policy_version)).toBe(6)
    for (const { status, body } of answers) {
      if (status !== 201) continue
      expect((await owner.call('POST', `/v1/keys/${body.id}/wrap`, { dek: dek() })).status).toBe(200)
    }
    expect((await owner.call('POST', `/v1/keys/${doomed}/wrap`, { dek: dek() })).body.key_version).toBe(1)
    expect((await owner.call('GET', '/v1/audit/verify')).body).toMatchObject({ valid: true })
  })
})

describe('the state of a tenant', () => {
  const stateOf = async ({ service }: { service: Service }) => {
    const state = await service.services.states.find(tenant_id)
    if (!state) throw new Error('no state')
    return state
  }

  it('is dropped when the chain went back or the tenant is gone, so that it is loaded again', async () => {
    const { services, createTenant } = at(0).service
    const { sql, states } = services
    const find = async () => {
      const { tenant } = await createTenant()
      const state = await states.find(tenant.tenant_id)
      if (!state) throw new Error('the tenant was not created')
      expect(states.recent(tenant.tenant_id, state.policy_version)).toBeDefined()
      return {
        state,
        id: tenant.tenant_id,
        isCached: () => states.recent(tenant.tenant_id, state.policy_version) !== undefined,
      }
    }
    const [back, gone] = [await find(), await find()]
    await sql`update heads set policy_version = policy_version - 1 where tenant_id = ${back.id}`
    await states.renew(back.state)
    await sql`update heads set policy_version = policy_version + 1 where tenant_id = ${gone.id}`
    await sql`delete from tenants where tenant_id = ${gone.id}`
    await expect(states.renew(gone.state)).rejects.toThrow(`tenant ${gone.id} is gone`)
    expect([back.isCached(), gone.isCached()]).toEqual([false, false])
  })

  it('is at hand after a change of this process, with every row that was open before', async () => {
    const [key_id, other] = [await newKey(), await newKey()]
    await owner.call('POST', `/v1/keys/${key_id}/wrap`, { dek: dek() })
    const before = await stateOf(at(0))
    const open = await before.findKey(key_id)
    await owner.call('POST', `/v1/keys/${other}/rotate`)
    const after = at(0).service.services.states.recent(tenant_id, before.policy_version + 1)
    expect(open).toBeDefined()
    expect(await after?.findKey(key_id)).toBe(open)
    expect((await after?.findKey(other))?.versions.get(2)?.kek).toBeDefined()
  })

  it.runIf(backend() === 'postgres')(
    'follows a change of another server, and reads again what that one wrote alone',
    async () => {
      const [key_id, other] = [await newKey(), await newKey()]
      const second = at(1)
      for (const id of [key_id, other]) await second.call('POST', `/v1/keys/${id}/wrap`, { dek: dek() })
      const before = await stateOf(second)
      const [open, touched] = [await before.findKey(key_id), await before.findKey(other)]
      await owner.call('POST', `/v1/keys/${other}/rotate`)
      expect((await second.call('POST', `/v1/keys/${other}/wrap`, { dek: dek() })).body.key_version).toBe(2)
      const after = await stateOf(second)
      expect(after.policy_version).toBe(before.policy_version + 1)
      expect(await after.findKey(key_id)).toBe(open)
      expect(await after.findKey(other)).not.toBe(touched)
    },
  )

  it.runIf(backend() === 'postgres')(
    'trusts no entries that are not the chain: a hidden revocation is found in its row',
    async () => {
      const second = at(1)
      const key_id = await newKey()
      const client = await newApiKey()
      const { call } = second.service.caller(client.secret)
      const wrap = () => call('POST', `/v1/keys/${key_id}/wrap`, { dek: dek() })
      expect((await wrap()).status).toBe(200)
      await owner.call('DELETE', `/v1/api-keys/${client.id}`)
      const { sql, committer } = second.service.services
      // It has witnessed the revocation: otherwise an alarm comes first.
      await watchesOf(committer)
        .get(tenant_id)
        .read(sql, (await stateOf(at(0))).auditKey)
      const edited = await sql`
      update audit_log set action = 'key.wrap' where tenant_id = ${tenant_id} and action = 'api_key.revoke'
        and metadata like ${`%${client.id}%`}`
      expect(edited.count).toBe(1)
      expect((await wrap()).status).toBe(401)
      await sql`
      update audit_log set action = 'api_key.revoke' where tenant_id = ${tenant_id} and action = 'key.wrap'
        and metadata like ${`%${client.id}%`}`
    },
  )
})
