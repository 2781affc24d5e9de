// Query parameters that a call does not know: refused where a query decides what is shown, because a misspelt filter would show everything.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { callRoute, type Ground, makeGround, routesWithRules, spareCaller } from '../support/service/route-calls.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

let service: Service
let owner: Caller
let ground: Ground

beforeAll(async () => {
  service = await startService()
  owner = await service.createTenant({ envelope_only: false })
  ground = await makeGround(owner)
})
afterAll(() => service?.close())

/** Some that callers take for filters, and names that every object has. */
const UNKNOWN = ['user', 'date_form', 'LIMIT', '__proto__', 'constructor', 'page[limit]']

/** The routes that declare a query; no other lists or counts anything. */
const FILTERED = [
  'GET /v1/keys',
  'GET /v1/audit',
  'GET /v1/audit/verify',
  'GET /v1/audit/export',
  'GET /v1/api-keys',
  'GET /v1/usage',
]

describe.each(routesWithRules())('$name', ({ name, row, rule }) => {
  const callWith = (query: string) =>
    callRoute(owner, { name, row, rule: { ...rule, call: () => ({ query }) } }, ground)

  if (FILTERED.includes(name)) {
    it.each(UNKNOWN)('refuses the parameter %s by its name', async (parameter) => {
      const { status, body } = await callWith(`?${encodeURIComponent(parameter)}=nobody`)
      expect([status, body.code]).toEqual([400, 'E_VALIDATION'])
      expect(body.detail).toContain(`${parameter}: is no parameter of this call, which takes `)
    })

    it('refuses each of its own parameters if it is repeated', async () => {
      for (const parameter of Object.keys((row.query as unknown as { shape: object }).shape)) {
        const { status, body } = await callWith(`?${parameter}=1&${parameter}=1`)
        expect([parameter, status, body.code]).toEqual([parameter, 400, 'E_VALIDATION'])
        expect(body.detail).toContain(`${parameter}: `)
      }
    })
  } else {
    it('declares no query, and ignores what is sent as one', async () => {
      expect(row.query).toBeUndefined()
      const own = await makeGround(owner)
      await rule.before?.(owner, own.key_id, service)
      const called = { ...rule, call: (on: Ground) => ({ ...rule.call(on), query: '?actor=nobody&_=1' }) }
      const caller = await spareCaller(owner, service)
      expect((await callRoute(caller, { name, row, rule: called }, own)).status).toBe(row.status)
    })
  }
})
