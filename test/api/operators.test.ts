// Operators' API keys and their calls: which permission each needs, that no other API key is taken, and that the installation's log has each
// call before anything is done.

import { randomUUID } from 'node:crypto'
import { fillPath, INSTALLATION_ID, OPERATOR_PERMISSIONS, type OperatorPermission, PERMISSIONS } from '@eaas/protocol'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv2020 } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createApiKey, revokeApiKey } from '../../packages/server/src/core/api/api-keys.js'
import { verifyLog } from '../../packages/server/src/core/audit/verify/verify.js'
import { performAsSystem } from '../../packages/server/src/core/runner/perform.js'
import { readChain } from '../../packages/server/src/core/store/audit.js'
import { watchesOf } from '../../packages/server/src/guard/watch/head-watch.js'
import { TENANT_GONE } from '../../packages/server/src/guard/watch/shared-alarms.js'
import { createMetrics } from '../../packages/server/src/observe/metrics.js'
import { operatorRoutes } from '../../packages/server/src/operators/operator-endpoints.js'
import { rotateAged } from '../support/custody/rotation.js'
import { type Answer, type Caller, type Service, startService } from '../support/service/service.js'

const ROUTES = operatorRoutes({ checkHealth: () => Promise.reject(new Error('no health')), ...createMetrics() })
const TENANTS = '/admin/v1/tenants'

let now = Date.now()
let service: Service
let operator: Caller
let operator_id: string
let acme: Caller

beforeAll(async () => {
  service = await startService({ now: () => now, environment: { EAAS_OPERATOR_API: 'on' } })
  ;({ id: operator_id, caller: operator } = await operatorKey(OPERATOR_PERMISSIONS))
  acme = await service.createTenant()
})
afterAll(() => service?.close())

const byOperator = <T>(operation: Parameters<typeof performAsSystem<T>>[2]) =>
  performAsSystem(service.services, INSTALLATION_ID, operation)

async function operatorKey(permissions: readonly OperatorPermission[], more: { expires_at?: string } = {}) {
  const made = await byOperator(createApiKey({ name: 'automation', permissions: [...permissions], ...more }))
  return { id: made.id, caller: service.caller(made.secret) }
}

/** The entries of a log, newest last, from an id on. */
async function entriesOf(tenant_id = INSTALLATION_ID, after_id = 0) {
  const chain = await readChain(service.services.sql, { tenant_id, after_id, through_id: 10_000, limit: 10_000 })
  return chain.map(({ action, actor, metadata, id }) => ({
    id,
    action,
    actor,
    told: metadata === null ? {} : JSON.parse(String(metadata)),
  }))
}

const lastId = async (tenant_id?: string) => (await entriesOf(tenant_id)).at(-1)?.id ?? 0

async function verdictOf(tenant_id: string) {
  const state = await service.services.states.find(tenant_id)
  if (!state) throw new Error('no such log')
  const { sql, storeKeys } = service.services
  return verifyLog(sql, { tenant_id, auditKey: state.auditKey, storeKeys })
}

async function expectValid(tenant_id: string): Promise<void> {
  expect(await verdictOf(tenant_id)).toMatchObject({ valid: true })
}

/** A call of a route that succeeds: on a tenant that is as the route needs it. */
async function callOf(route: (typeof ROUTES)[number]): Promise<[method: string, path: string, body?: unknown]> {
  const bodies: Partial<Record<string, unknown>> = {
    createTenant: { name: `made ${randomUUID().slice(0, 8)}` },
    updateTenant: { monthly_encrypt_quota: 10 },
    suspendTenant: { reason: 'not paid' },
    resumeTenant: { reason: 'paid' },
  }
  const { tenant } = await service.createTenant()
  const path = route.path.includes(':id') ? fillPath(route.path, { id: tenant.tenant_id }) : route.path
  return [route.method, path, bodies[route.operationId]]
}

const shapeOf = ({ status, headers, body }: Answer<unknown>) => [status, headers.get('www-authenticate'), body]

describe('the calls of operators', () => {
  it('are not served unless the setting is on', async () => {
    const other = await startService()
    try {
      for (const path of [TENANTS, '/admin/openapi.json']) {
        expect((await other.caller(operator.secret).call('GET', path)).body).toMatchObject({
          code: 'E_ROUTE_NOT_FOUND',
        })
      }
    } finally {
      await other.close()
    }
  })

  it.each(ROUTES)('$operationId needs exactly its permission', async (route) => {
    const [needed] = route.permissions as OperatorPermission[]
    const others = OPERATOR_PERMISSIONS.filter((permission) => permission !== needed)
    const { caller: without } = await operatorKey(others)
    const call = await callOf(route)
    const before = await lastId()
    const refused = await without.call(...call)
    expect(refused.body).toMatchObject({
      status: 403,
      code: 'E_MISSING_PERMISSION',
      detail: `missing permission: ${needed}`,
    })
    expect(await lastId()).toBe(before)
    const { caller: only } = await operatorKey([needed as OperatorPermission])
    expect((await only.call(...call)).status).toBe(route.status)
  })

  it.each(ROUTES)('$operationId takes no other API key, and says the same of each', async (route) => {
    const revoked = await operatorKey(OPERATOR_PERMISSIONS)
    await byOperator(revokeApiKey({ api_key_id: revoked.id }))
    const expired = await operatorKey(OPERATOR_PERMISSIONS, { expires_at: new Date(now + 1_000).toISOString() })
    now += 2_000
    const unknown = operator.secret.slice(0, -1) + (operator.secret.endsWith('A') ? 'B' : 'A')
    const call = await callOf(route)
    const before = await lastId()
    const answers = new Set<string>()
    for (const secret of [acme.secret, revoked.caller.secret, expired.caller.secret, unknown, 'no']) {
      answers.add(JSON.stringify(shapeOf(await service.caller(secret).call(...call))))
    }
    expect([...answers]).toEqual([JSON.stringify(shapeOf(await service.caller('no').call('GET', '/v1/keys')))])
    expect(await lastId()).toBe(before)
  })

  it('are all that an operator’s API key opens: /v1 says the same of it as of any that does not open', async () => {
    for (const path of ['/v1/keys', '/v1/audit', '/v1/tenant', '/v1/api-keys']) {
      expect(shapeOf(await operator.call('GET', path))).toEqual(shapeOf(await service.caller('no').call('GET', path)))
    }
  })

  it.each(ROUTES.filter(({ action }) => action))(
    '$operationId is in the installation’s log, by the API key and with the tenant',
    async (route) => {
      const call = await callOf(route)
      const before = await lastId()
      expect((await operator.call(...call)).status).toBe(route.status)
      const [entry] = await entriesOf(INSTALLATION_ID, before)
      const named = route.path.includes(':id') ? { tenant_id: call[1].split('/')[4] } : {}
      expect(entry).toMatchObject({
        action: 'installation.operator_call',
        actor: operator_id,
        told: { call: route.operationId, ...named },
      })
    },
  )

  it.each(ROUTES.filter(({ action }) => action))(
    '$operationId does nothing where the log cannot record it',
    async (route) => {
      const { sql } = service.services
      const call = await callOf(route)
      const state = async () => [
        await sql`select * from tenants order by tenant_id`,
        await sql`select * from api_keys order by api_key_id`,
        await sql`select * from heads order by tenant_id`,
      ]
      const before = JSON.stringify(await state())
      await sql`alter table audit_log add constraint refused check (action <> 'installation.operator_call') not valid`
      try {
        const { status, body } = await operator.call(...call)
        expect([status, body.code]).toEqual([500, 'E_AUDIT_NOT_WRITTEN'])
        expect(JSON.stringify(await state())).toBe(before)
      } finally {
        await sql`alter table audit_log drop constraint refused`
      }
    },
  )

  it('leave nothing half done if the change itself cannot be recorded', async () => {
    const { sql } = service.services
    const { tenant_id } = (await service.createTenant()).tenant
    const count = async () => (await sql`select from tenants`).length
    const before = await count()
    await sql`alter table audit_log add constraint refused check (action not in ('installation.tenant_create', 'installation.tenant_suspend')) not valid`
    try {
      expect((await operator.call('POST', TENANTS, { name: 'half' })).status).toBe(500)
      expect((await operator.call('POST', `${TENANTS}/${tenant_id}/suspend`, { reason: 'x' })).status).toBe(500)
    } finally {
      await sql`alter table audit_log drop constraint refused`
    }
    expect(await count()).toBe(before)
    expect((await operator.call('GET', `${TENANTS}/${tenant_id}`)).body.status).toBe('active')
    expect((await operator.call('POST', TENANTS, { name: 'half' })).status).toBe(201)
  })

  it('write only what verifies, in both logs', async () => {
    const { body } = await operator.call('POST', TENANTS, { name: 'verified' })
    await operator.call('POST', `${TENANTS}/${body.tenant_id}/suspend`, { reason: 'a test' })
    await operator.call('POST', `${TENANTS}/${body.tenant_id}/resume`, { reason: 'a test' })
    await expectValid(INSTALLATION_ID)
    await expectValid(body.tenant_id)
  })
})

describe('tenants', () => {
  it('are created with an API key that is shown once and holds every permission', async () => {
    const { status, body } = await operator.call('POST', TENANTS, { name: 'first', envelope_only: false })
    expect(status).toBe(201)
    expect(body).toMatchObject({ name: 'first', envelope_only: false, api_key: { permissions: [...PERMISSIONS] } })
    const own = service.caller(body.api_key.secret)
    expect((await own.call('GET', '/v1/tenant')).body).toMatchObject({
      tenant_id: body.tenant_id,
      envelope_only: false,
    })
    expect(JSON.stringify((await operator.call('GET', `${TENANTS}/${body.tenant_id}`)).body)).not.toContain('eaas_sk_')
    const again = await operator.call('POST', TENANTS, { name: 'first' })
    expect(again.body).toMatchObject({ status: 409, code: 'E_NAME_TAKEN' })
  })

  it('name the operator in their own log, by the API key', async () => {
    const { body } = await operator.call('POST', TENANTS, { name: 'named' })
    await operator.call('PATCH', `${TENANTS}/${body.tenant_id}`, { envelope_only: false })
    const entries = await entriesOf(body.tenant_id)
    expect(entries.map(({ action }) => action)).toEqual(['api_key.create', 'tenant.update'])
    expect(new Set(entries.map(({ actor }) => actor))).toEqual(new Set([`operator:${operator_id}`]))
  })

  it('are suspended and resumed, for every server at once', async () => {
    const tenant = await service.createTenant()
    const path = `${TENANTS}/${tenant.tenant.tenant_id}`
    const suspended = await operator.call('POST', `${path}/suspend`, { reason: 'not paid' })
    expect(suspended.body).toMatchObject({ status: 'suspended' })
    expect((await tenant.call('GET', '/v1/keys')).body).toMatchObject({ code: 'E_TENANT_SUSPENDED' })
    expect((await operator.call('POST', `${path}/resume`, { reason: 'paid' })).body).toMatchObject({ status: 'active' })
    expect((await tenant.call('GET', '/v1/keys')).status).toBe(200)
    await operator.call('POST', `${path}/resume`, {}) // changes nothing
    await operator.call('POST', `${path}/resume`, { reason: 'case 4711' })
    const told = (await entriesOf(tenant.tenant.tenant_id)).map(({ told }) => told.reason)
    expect(told).toEqual([undefined, 'not paid', 'paid', 'case 4711'])
  })

  it('have a quota, an encoding and server mode that can be changed, and keep what is not named', async () => {
    const path = `${TENANTS}/${(await service.createTenant()).tenant.tenant_id.toUpperCase()}`
    const change = async (body: unknown) => (await operator.call('PATCH', path, body)).body
    expect(await change({ monthly_encrypt_quota: 5 })).toMatchObject({ monthly_encrypt_quota: 5, envelope_only: true })
    expect(await change({ envelope_only: false })).toMatchObject({ monthly_encrypt_quota: 5, envelope_only: false })
    expect(await change({ plaintext_encoding: 'base64' })).toMatchObject({ plaintext_encoding: 'base64' })
    expect(await change({ monthly_encrypt_quota: null })).toMatchObject({ monthly_encrypt_quota: null })
  })

  it('are listed in pages, without those whose rows somebody changed', async () => {
    const { sql } = service.services
    const { tenant } = await service.createTenant()
    const all = (await operator.call('GET', `${TENANTS}?limit=1000`)).body
    const pages = await Promise.all([0, 2].map((offset) => operator.call('GET', `${TENANTS}?limit=2&offset=${offset}`)))
    expect(pages.flatMap(({ body }) => body.tenants)).toEqual(all.tenants.slice(0, 4))
    await sql`update tenants set envelope_only = false where tenant_id = ${tenant.tenant_id}`
    try {
      const listed = (await operator.call('GET', `${TENANTS}?limit=1000`)).body
      expect(listed.tampered).toEqual([tenant.tenant_id])
      expect(listed.count).toBe(all.count - 1)
    } finally {
      await sql`update tenants set envelope_only = true where tenant_id = ${tenant.tenant_id}`
    }
  })

  it.each([
    ['POST', TENANTS, {}, 'name'],
    ['POST', TENANTS, { name: randomUUID() }, 'must not be a UUID'],
    ['POST', TENANTS, { name: ' ' }, 'must not be blank'],
    ['POST', TENANTS, { name: 'x', envelope_onyl: false }, 'envelope_onyl'],
    ['PATCH', `${TENANTS}/:id`, { monthly_encrypt_quota: -1 }, 'monthly_encrypt_quota'],
    ['PATCH', `${TENANTS}/:id`, { status: 'deleted' }, 'status'],
    ['POST', `${TENANTS}/:id/suspend`, {}, 'reason'],
    ['POST', `${TENANTS}/:id/suspend`, { reason: '' }, 'reason'],
    ['GET', `${TENANTS}?limt=1`, undefined, 'limt'],
    ['GET', `${TENANTS}?limit=0`, undefined, 'limit'],
  ])('%s %s refuses %j', async (method, path, body, named) => {
    const before = await lastId()
    const answer = await operator.call(method, path.replace(':id', acme.tenant.tenant_id), body)
    expect(answer.body).toMatchObject({ status: 400, code: 'E_VALIDATION', detail: expect.stringContaining(named) })
    expect(await lastId()).toBe(before)
  })

  it.each([randomUUID(), INSTALLATION_ID, 'acme', '%00'])('are not found by the id %s', async (id) => {
    for (const [method, path, body] of [
      ['GET', '', undefined],
      ['PATCH', '', {}],
      ['POST', '/suspend', { reason: 'x' }],
    ] as const) {
      const answer = await operator.call(method, `${TENANTS}/${id}${path}`, body)
      expect(answer.body).toMatchObject({ status: 404, code: 'E_NOT_FOUND', detail: 'tenant not found' })
    }
  })
})

describe('alarms', () => {
  it('say what is wrong, what is refused and what to do, also while the installation’s own log has one', async () => {
    const own = await startService({ environment: { EAAS_OPERATOR_API: 'on' } })
    try {
      const create = createApiKey({ name: 'monitor', permissions: [...OPERATOR_PERMISSIONS] })
      const monitor = own.caller((await performAsSystem(own.services, INSTALLATION_ID, create)).secret)
      const owner = await own.createTenant()
      const { tenant_id } = owner.tenant
      expect((await monitor.call('GET', '/admin/v1/alarms')).body).toEqual({ alarms: [], count: 0 })
      const watches = watchesOf(own.services.committer)
      for (const id of [tenant_id, INSTALLATION_ID]) watches.get(id).learn({ reason: 'a test', witness: undefined })
      const gone = randomUUID()
      watches.get(gone).learn({ reason: TENANT_GONE, witness: undefined })
      const { status, body } = await monitor.call('GET', '/admin/v1/alarms')
      expect([status, body.count]).toEqual([200, 3])
      const alarmOf = (id: string | null) => body.alarms.find((alarm: { tenant_id: unknown }) => alarm.tenant_id === id)
      const what = { code: 'log_differs', reason: 'a test', page: 'What to do when an alarm is raised' }
      expect(alarmOf(tenant_id)).toMatchObject({
        ...what,
        refused: expect.stringContaining('All calls of these tenants'),
      })
      expect(alarmOf(null).commands).toContain('eaas audit verify --installation')
      expect(alarmOf(gone)).toMatchObject({
        code: 'tenant_gone',
        commands: ['eaas doctor', `eaas accept tenant ${gone} --help`],
      })
      expect((await monitor.call('GET', '/admin/v1/status')).body).toMatchObject({
        alarms: 3,
        health: { status: 'degraded' },
        invalid_logs: null,
        ages_in_seconds: { anchor: null, backup: null, witnesses: [] },
      })
      const refused = await monitor.call('GET', TENANTS) // it could not be recorded
      expect(refused.body).toMatchObject({ status: 500, code: 'E_AUDIT_NOT_WRITTEN' })
      const madeUp = ({ secret }: Caller) => own.caller(secret.replace(/_[0-9A-Za-z]{43}$/, `_${'0'.repeat(43)}`))
      for (const [caller, path] of [
        [owner, '/v1/keys'],
        [monitor, TENANTS],
      ] as const) {
        expect((await caller.call('GET', path)).body.code).toBe('E_AUDIT_NOT_WRITTEN')
        const from = performance.now()
        expect((await madeUp(caller).call('GET', path)).body.code).toBe('E_UNAUTHORIZED') // told of no alarm
        expect(performance.now() - from).toBeGreaterThan(18) // as long as any such refusal takes
      }
    } finally {
      await own.close()
    }
  })
})

describe('operators’ API keys', () => {
  it('are stored as those of tenants are: a digest, under a MAC, and on record', async () => {
    const { id, caller } = await operatorKey(['tenants:read'])
    const { sql } = service.services
    const [row] = await sql<{ digest: string }[]>`select digest from api_keys where api_key_id = ${id}`
    expect(row?.digest).toMatch(/^[0-9a-f]{64}$/)
    expect(JSON.stringify(await sql`select * from api_keys`)).not.toContain(caller.secret.slice(-20))
    const entry = (await entriesOf()).find(({ told }) => told.api_key_id === id)
    expect(entry).toMatchObject({ action: 'api_key.create', told: { permissions: 'tenants:read' } })
  })

  it.each([
    [
      'permissions',
      async (id: string) =>
        service.services.sql`update api_keys set permissions = ${[...OPERATOR_PERMISSIONS]} where api_key_id = ${id}`,
    ],
    [
      'tenant',
      async (id: string) =>
        service.services.sql`update api_keys set tenant_id = ${acme.tenant.tenant_id} where api_key_id = ${id}`,
    ],
  ])('whose %s somebody changed in the database open nothing', async (_, change) => {
    const { id, caller } = await operatorKey(['alarms:read'])
    await change(id)
    service.services.states.forget(INSTALLATION_ID)
    try {
      expect((await caller.call('GET', TENANTS)).status).toBeGreaterThanOrEqual(400)
      expect((await caller.call('POST', TENANTS, { name: 'forged' })).status).toBeGreaterThanOrEqual(400)
    } finally {
      await service.services.sql`
        update api_keys set permissions = ${['alarms:read']}, tenant_id = ${INSTALLATION_ID} where api_key_id = ${id}`
      service.services.states.forget(INSTALLATION_ID)
    }
  })

  it('whose older row somebody puts back open nothing', async () => {
    const { sql, states } = service.services
    const { id, caller } = await operatorKey(['tenants:read'])
    const [row] = await sql<
      { revoked_at: null; entry_id: number; mac: Uint8Array }[]
    >`select revoked_at, entry_id, mac from api_keys where api_key_id = ${id}`
    await byOperator(revokeApiKey({ api_key_id: id }))
    await sql`update api_keys set revoked_at = null, entry_id = ${row?.entry_id ?? 0}, mac = ${row?.mac ?? ''} where api_key_id = ${id}`
    states.forget(INSTALLATION_ID)
    expect((await caller.call('GET', TENANTS)).body).toMatchObject({ status: 500, code: 'E_TAMPERED' })
    expect(await verdictOf(INSTALLATION_ID)).toMatchObject({ valid: false, reason: 'row_replaced' })
  })

  it('are valid after a rotation of the store key, at a server that had them cached too', async () => {
    const first = await startService({ environment: { EAAS_OPERATOR_API: 'on' } })
    try {
      const create = createApiKey({ name: 'lasting', permissions: [...OPERATOR_PERMISSIONS] })
      const lasting = first.caller((await performAsSystem(first.services, INSTALLATION_ID, create)).secret)
      expect((await lasting.call('GET', TENANTS)).status).toBe(200)
      await rotateAged(first)
      expect((await lasting.call('GET', TENANTS)).status).toBe(200)
      expect((await lasting.call('POST', TENANTS, { name: 'after' })).status).toBe(201)
    } finally {
      await first.close()
    }
  })
})

describe('the OpenAPI document of operators', () => {
  it('is valid, has exactly the routes, and is true of what they answer', async () => {
    // biome-ignore lint/suspicious/noExplicitAny: a document of another program's format
    const document: any = await (await fetch(`${service.url}/admin/openapi.json`)).json()
    expect(await new Validator().validate(structuredClone(document))).toMatchObject({ valid: true })
    const documented = Object.entries<object>(document.paths).flatMap(([path, methods]) =>
      Object.keys(methods).map((method) => `${method.toUpperCase()} ${path.replaceAll(/\{(\w+)\}/g, ':$1')}`),
    )
    expect(documented.sort()).toEqual(ROUTES.map(({ method, path }) => `${method} ${path}`).sort())
    const ajv = new Ajv2020({ strict: false, allErrors: true })
    formats.default(ajv)
    ajv.addSchema(document, 'openapi')
    const fits = (schema: { $ref: string }, value: unknown) => {
      const validate = ajv.compile({ $ref: `openapi${schema.$ref}` })
      return validate(value) ? [] : validate.errors
    }
    for (const route of ROUTES) {
      const operation = document.paths[route.path.replaceAll(/:(\w+)/g, '{$1}')][route.method.toLowerCase()]
      const content = operation.responses[route.status].content['application/json']
      expect(operation.security).toEqual([{ apiKey: route.permissions }])
      expect(fits(content.schema, content.example), `the example of ${route.operationId}`).toEqual([])
      const [method, path, body] = await callOf(route)
      const sent = operation.requestBody?.content['application/json']
      if (sent) expect(fits(sent.schema, body)).toEqual([])
      if (sent) expect(fits(sent.schema, sent.example)).toEqual([])
      const answer = await operator.call(method, path, body)
      expect(answer.status, route.operationId).toBe(route.status)
      expect(fits(content.schema, answer.body), route.operationId).toEqual([])
    }
  })
})
