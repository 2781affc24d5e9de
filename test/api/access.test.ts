// Access by credentials, permissions and tenants. The tests are generated from the table of routes, so they include every new route.
import { PERMISSIONS, type Permission, PROBLEM_CONTENT_TYPE } from '@eaas/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { serverOf } from '../support/audit/audit-scene.js'
import { callRoute, makeGround, routesWithRules, spareCaller } from '../support/service/route-calls.js'
import { type Answer, type Caller, type Service, startService } from '../support/service/service.js'

const ROUTES = routesWithRules()

let now = Date.now()
let service: Service
let owner: Caller
let stranger: Caller
/** on the same database, with caches of its own */
let other: ReturnType<typeof serverOf>

beforeAll(async () => {
  service = await startService({ now: () => now })
  owner = await service.createTenant({ envelope_only: false })
  stranger = await service.createTenant({ envelope_only: false })
  other = serverOf(service)
})
afterAll(async () => {
  await other?.app.close()
  await service?.close()
})

function callsOn({ call }: typeof other, secret: string): Caller['call'] {
  return async (method, path, body) => ({ ...(await call(secret, method, path, body)), headers: new Headers() })
}

async function apiKey(permissions: readonly Permission[], more: Record<string, unknown> = {}) {
  const { status, body } = await owner.call('POST', '/v1/api-keys', { name: 'x', permissions, ...more })
  expect(status).toBe(201)
  return { id: body.id as string, caller: service.caller(body.secret) }
}

function shape({ status, headers, body }: Answer<unknown>) {
  return { status, type: headers.get('content-type'), authenticate: headers.get('www-authenticate'), body }
}

async function entries(): Promise<number> {
  return (await owner.call('GET', '/v1/audit?limit=1')).body.total
}

describe('credentials', () => {
  it('that do not open are answered alike on every route, whatever is wrong with them', async () => {
    const unknown = owner.secret.slice(0, -1) + (owner.secret.endsWith('A') ? 'B' : 'A')
    const revoked = await apiKey(PERMISSIONS)
    await owner.call('DELETE', `/v1/api-keys/${revoked.id}`)
    const expired = await apiKey(PERMISSIONS, { expires_at: new Date(now + 1_000).toISOString() })
    now += 2_000
    const headers: Record<string, string>[] = [
      { authorization: '' },
      { authorization: `Bearer ${unknown}` },
      { authorization: `Bearer ${revoked.caller.secret}` },
      { authorization: `Bearer ${expired.caller.secret}` },
      { authorization: `Bearer ${owner.secret.slice(0, -1)}` },
      { authorization: `Bearer ${owner.secret}x` },
      { authorization: `Bearer eaas_sk_${'0'.repeat(32)}_${'0'.repeat(43)}` },
      { authorization: `bearer${owner.secret}` },
      { authorization: `Bearer  ${owner.secret}` },
      { authorization: `Bearer\t${owner.secret}` },
      { authorization: `Basic ${Buffer.from(`x:${owner.secret}`).toString('base64')}` },
      { authorization: owner.secret },
      { authorization: 'Bearer ' },
    ]
    const ground = await makeGround(owner)
    const before = await entries()
    const answers = new Set<string>()
    for (const route of ROUTES) {
      for (const header of headers) answers.add(JSON.stringify(shape(await callRoute(owner, route, ground, header))))
    }
    expect([...answers]).toEqual([
      JSON.stringify({
        status: 401,
        type: PROBLEM_CONTENT_TYPE,
        authenticate: 'Bearer',
        body: {
          type: 'about:blank',
          title: 'Unauthorized',
          status: 401,
          detail: 'a valid API key is required: Authorization: Bearer eaas_sk_…',
          code: 'E_UNAUTHORIZED',
        },
      }),
    ])
    expect(await entries()).toBe(before)
  })

  it('take longer to refuse than any look-up, so that the time does not tell an unknown tenant from an unknown or a revoked API key', async () => {
    const revoked = await apiKey(['keys:read'])
    await owner.call('DELETE', `/v1/api-keys/${revoked.id}`)
    const expired = await apiKey(['keys:read'], { expires_at: new Date(now + 1_000).toISOString() })
    now += 2_000
    const secrets = {
      unknownTenant: `eaas_sk_${'0'.repeat(32)}_${'0'.repeat(43)}`,
      unknown: owner.secret.replace(/_[0-9A-Za-z]{43}$/, `_${'0'.repeat(43)}`),
      revoked: revoked.caller.secret,
      expired: expired.caller.secret,
    }
    for (const [name, secret] of Object.entries(secrets)) {
      for (let round = 0; round < 3; round++) {
        const from = performance.now()
        expect((await service.caller(secret).call('GET', '/v1/keys')).status, name).toBe(401)
        expect(performance.now() - from, name).toBeGreaterThan(18) // a timer of 20 ms, whose clock counts whole ones
      }
    }
  })

  it('in the query are not accepted', async () => {
    const response = await fetch(
      `${service.url}/v1/keys?api_key=${owner.secret}&authorization=Bearer%20${owner.secret}`,
    )
    expect(response.status).toBe(401)
  })

  it('are checked before the body is: a caller without them learns nothing about it', async () => {
    for (const body of ['{', '\xff', JSON.stringify({ name: 'x'.repeat(2_000_000) })]) {
      const answer = await owner.call('POST', '/v1/keys', body, { authorization: 'Bearer no' })
      expect(answer.status).toBe(401)
    }
  })

  it('stop opening the moment that the revocation is acknowledged', async () => {
    const { id, caller } = await apiKey(['keys:read'])
    expect((await caller.call('GET', '/v1/keys')).status).toBe(200)
    expect((await owner.call('DELETE', `/v1/api-keys/${id}`)).status).toBe(204)
    expect((await caller.call('GET', '/v1/keys')).status).toBe(401)
  })

  it('open at another server, which has the API key cached without a permission, the moment that it is granted', async () => {
    const { id, caller } = await apiKey([])
    const call = callsOn(other, caller.secret)
    expect((await call('GET', '/v1/keys')).status).toBe(403)
    expect((await owner.call('PATCH', `/v1/api-keys/${id}`, { permissions: ['keys:read'] })).status).toBe(200)
    expect((await call('GET', '/v1/keys')).status).toBe(200)
  })
})

/** By permission: another one that allows the same, which a caller must lack too to be refused. */
const INCLUDED_IN: Partial<Record<Permission, Permission>> = { hash: 'encrypt', wrap: 'encrypt', unwrap: 'decrypt' }

describe.each(ROUTES)('$name', (route) => {
  const { row, rule, name } = route
  const needed = new Set<Permission>(name === 'POST /v1/batch' ? ['wrap'] : row.permissions)

  it('is let through by exactly the permissions that it names', async () => {
    const ground = await makeGround(owner)
    await rule.before?.(owner, ground.key_id, service)
    for (const permission of needed) {
      const lacking = [permission, INCLUDED_IN[permission]]
      const without = await apiKey(PERMISSIONS.filter((other) => !lacking.includes(other)))
      const { status, body } = await callRoute(without.caller, route, ground)
      if (name === 'POST /v1/batch') expect([permission, body.results[0].status]).toEqual([permission, 403])
      else {
        expect([permission, status, body.code, body.detail]).toEqual([
          permission,
          403,
          'E_MISSING_PERMISSION',
          `missing permission: ${permission}`,
        ])
      }
    }
    // None of the others is needed, and the refusals changed nothing: the call is let through.
    const alone = await apiKey([...needed])
    const { status, body } = await callRoute(alone.caller, route, ground)
    expect(status).toBe(row.status)
    if (name === 'POST /v1/batch') expect(body.results[0].status).toBe(200)
  })

  it('is closed by another server, which has the API key cached, the moment that the revocation is acknowledged', async () => {
    const ground = await makeGround(owner)
    await rule.before?.(owner, ground.key_id, service)
    const { id, caller } = await apiKey(PERMISSIONS)
    const elsewhere = { ...caller, call: callsOn(other, caller.secret) }
    expect((await elsewhere.call('GET', '/v1/tenant')).status).toBe(200)
    expect((await owner.call('DELETE', `/v1/api-keys/${id}`)).status).toBe(204)
    expect((await callRoute(elsewhere, route, ground)).status).toBe(401)
  })

  it("treats a neighbour's ids as if they did not exist", async () => {
    const [foreign, own] = [await makeGround(owner), await makeGround(stranger)]
    await rule.before?.(owner, foreign.key_id, service)
    const absent = { ...foreign, key_id: crypto.randomUUID(), api_key_id: crypto.randomUUID() }
    absent.bundle = { ...foreign.bundle, key_id: absent.key_id }
    const before = await entries()
    const neighbour = await spareCaller(stranger, service)
    const answers = [
      await callRoute(neighbour, route, foreign),
      await callRoute(neighbour, route, absent),
      // the neighbour's tokens under one's own key
      await callRoute(neighbour, route, {
        ...own,
        wrapped_key: foreign.wrapped_key,
        bundle: { ...foreign.bundle, key_id: own.key_id },
      }),
    ]
    const [first, second, third] = answers.map(shape)
    if (rule.on || /hash|crypt/.test(name)) {
      expect(first?.status).toBe(404)
      expect(first).toEqual(second)
    } else {
      expect(`${JSON.stringify(first?.body)}`).not.toContain(foreign.name) // 204 has no body
      const results = (first?.body as { results?: { status: number }[]; logs?: unknown[] }) ?? {}
      if (name === 'POST /v1/batch') expect(results.results?.[0]?.status).toBe(404)
      if (name === 'GET /v1/audit') expect(results.logs).toEqual([])
      if (name === 'GET /v1/keys') expect(JSON.stringify(first?.body)).not.toContain(foreign.key_id)
      if (name === 'GET /v1/api-keys') expect(JSON.stringify(first?.body)).not.toContain(foreign.api_key_id)
    }
    if (/unwrap|rewrap/.test(name)) expect(third).toMatchObject({ status: 403, body: { code: 'E_WRAPPED_KEY' } })
    if (/decrypt/.test(name)) expect(third).toMatchObject({ status: 422, body: { code: 'E_DECRYPTION_FAILED' } })
    expect(await entries()).toBe(before)
  })

  it('writes exactly the audit entry that the table names', async () => {
    const ground = await makeGround(owner)
    await rule.before?.(owner, ground.key_id, service)
    const { id, caller } = await apiKey(PERMISSIONS)
    const before = (await owner.call('GET', '/v1/audit?limit=1')).body.logs[0].id
    const { status, headers } = await callRoute(caller, route, ground)
    expect(status).toBe(row.status)
    expect(headers.get('cache-control')).toBe('no-store')
    const { logs } = (await owner.call('GET', `/v1/audit?after_id=${before}`)).body
    const batched: Record<string, string> = { 'POST /v1/batch': 'key.wrap', 'POST /v1/batch/keys': 'key.create' }
    const action = batched[name] ?? row.action
    expect(logs.map((entry: { action: string }) => entry.action)).toEqual(action ? [action] : [])
    for (const entry of logs) {
      expect([entry.actor, entry.ip_address]).toEqual([id, '127.0.0.1'])
    }
  })
})
