// A broker's options are checked when it is made, or reported at the first request.
import { describe, expect, it } from 'vitest'
import type { AllowedKeys } from '../broker.js'
import {
  ask,
  DEK,
  keyId,
  makeBroker,
  serveBroker,
  service,
  useBroker,
  wrapBody,
  wrapPath,
} from '../test-support/broker.js'

useBroker()

describe('the options of a broker', () => {
  it.each<[string, Record<string, unknown>]>([
    ['baseUrl', { baseUrl: '/api' }],
    ['baseUrl', { baseUrl: 'https://user:pass@host' }],
    ['apiKey', { apiKey: 7 }],
    ['authenticate', { authenticate: undefined }],
    ['allow', { allow: undefined }],
    ['allow', { allow: { decrypt: [] } }],
    ['allow', { allow: { wrap: ['users'] } }],
    ['allow', { allow: { wrap: 7 } }],
    ['allow', { allow: { wrap: null } }],
    ['allow', { allow: { unwrap_index: ['users'] } }],
    ['allow', { allow: { unwrap_stream: [] } }],
    ['basePath', { basePath: '/api/' }],
    ['basePath', { basePath: 'api' }],
    ['basePath', { basePath: '/a/../b' }],
    ['origins', { origins: ['https://app.example.org/'] }],
    ['origins', { origins: ['*'] }],
    ['origins', { origins: 7 }],
    ['fetch', { fetch: 'fetch' }],
    ['onError', { onError: 'console' }],
    ['maxBodyBytes', { maxBodyBytes: 0 }],
    ['callsPerMinute', { limits: { callsPerMinute: 0 } }],
    ['timeoutMs', { timeoutMs: 0.5 }],
  ])('are checked: %s', (name, options) => {
    expect(() => makeBroker(options)).toThrow(
      expect.objectContaining({ code: 'E_INVALID_INPUT', message: expect.stringContaining(name) }),
    )
  })
})

describe('the use of a wrapped key', () => {
  const unwrapPath = () => `/api/eaas/v1/keys/${keyId}/unwrap`
  const index = { wrapped_key: 'AAAA', purpose: 'index', context: { model: 'customers' } }

  it('is what the page states, in `allow` and to the service, alone and in a batch', async () => {
    const calls: unknown[] = []
    serveBroker({ allow: (_, call) => calls.push(call) > 0 })
    await ask(unwrapPath(), { body: { ...index, record: 'digests' } })
    await ask('/api/eaas/v1/batch', {
      body: {
        operations: [
          { op: 'wrap', key_id: keyId, dek: DEK, context: {} },
          { op: 'unwrap', key_id: keyId, wrapped_key: 'AAAA' },
        ],
      },
    })
    const call = { key_id: keyId }
    expect(calls).toEqual([
      { ...call, operation: 'unwrap', purpose: 'index', context: { model: 'customers' } },
      { ...call, operation: 'wrap', purpose: 'data', context: {} },
      { ...call, operation: 'unwrap' },
    ])
    expect(service.requests.map(({ body }) => JSON.parse(body))).toEqual([
      index,
      {
        operations: [
          { op: 'wrap', ...call, dek: DEK, purpose: 'data', context: {} },
          { op: 'unwrap', ...call, wrapped_key: 'AAAA' },
        ],
      },
    ])
  })

  it('is allowed by the id of a key in any case, which the service gets in lower case', async () => {
    serveBroker({ allow: { wrap: [keyId.toUpperCase()], hash: [keyId] } })
    const KEY = keyId.toUpperCase()
    const operations = [
      { op: 'wrap', key_id: KEY, dek: DEK },
      { op: 'hash', key_id: KEY, value: 'x' },
    ]
    await ask(wrapPath(keyId), { body: { dek: DEK } })
    await ask(wrapPath(KEY), { body: { dek: DEK } })
    await ask('/api/eaas/v1/hash', { body: { key_id: KEY, value: 'x' } })
    await ask('/api/eaas/v1/batch', { body: { operations } })
    const sent = service.requests.map(({ url, body }) => `${url} ${body}`)
    expect(sent.map((text) => [text.includes(keyId), text.includes(KEY)])).toEqual(sent.map(() => [true, false]))
    expect(sent).toHaveLength(4)
  })

  it('stands in the log as the broker says, whatever the page asks for', async () => {
    for (const auditContext of ['digests', 'values', undefined] as const) {
      serveBroker({ auditContext })
      const operations = [
        { op: 'unwrap', key_id: keyId, ...index },
        { op: 'wrap', key_id: keyId, dek: DEK },
        { op: 'hash', key_id: keyId, value: 'x' },
      ]
      await ask(unwrapPath(), { body: { ...index, record: 'values' } })
      await ask('/api/eaas/v1/batch', { body: { operations } })
      const bodies = service.requests.splice(0).map(({ body }) => JSON.parse(body))
      const said = auditContext === 'digests' ? { record: 'digests' } : {}
      expect(bodies).toEqual([
        { ...index, ...said },
        { operations: [{ ...operations[0], ...said }, operations[1], operations[2]] },
      ])
    }
    expect(() => makeBroker({ auditContext: 'none' as 'values' })).toThrow(/auditContext must be one of/)
  })

  it.each([
    ['purpose', 'search'],
    ['purpose', ['index']],
    ['purpose', null],
    ['context', 'x'],
    ['context', null],
    ['context', { row: 7 }],
    ['context', { '': 'x' }],
  ])('is refused before the service is asked if %s is %j', async (name, value) => {
    const { status, body } = await ask(unwrapPath(), { body: { ...index, [name]: value } })
    expect([status, body.code]).toEqual([400, 'E_VALIDATION'])
    expect(service.requests).toEqual([])
  })

  it('of an index secret is decided by its name, and passed on alone and in a batch', async () => {
    const calls: unknown[] = []
    serveBroker({ allow: (_, call) => calls.push(call) > 0 })
    const secret = { operation: 'indexSecret', key_id: keyId, name: 'customers' }
    const answer = await ask(`/api/eaas/v1/keys/${keyId}/index-secret`, {
      body: { name: 'customers', purpose: 'data' },
    })
    expect([answer.status, answer.body]).toEqual([200, { secret: expect.any(String), key_id: keyId }])
    const operations = [{ op: 'indexSecret', key_id: keyId, name: 'customers' }]
    const { body } = await ask('/api/eaas/v1/batch', { body: { operations } })
    expect(body.results).toEqual([{ status: 200, body: answer.body }])
    expect(calls).toEqual([secret, secret])
    expect(service.requests.map(({ body }) => JSON.parse(body))).toEqual([{ name: 'customers' }, { operations }])
    for (const [allow, status] of [
      [{ indexSecret: [keyId] }, 200],
      [{ unwrap: [keyId], hash: [keyId] }, 403],
    ] as const) {
      serveBroker({ allow })
      const body = { name: 'customers' }
      expect((await ask(`/api/eaas/v1/keys/${keyId}/index-secret`, { body })).status).toBe(status)
    }
    expect((await ask(`/api/eaas/v1/keys/${keyId}/index-secret`, { body: { name: 7 } })).body.code).toBe('E_VALIDATION')
  })

  it('of an index needs a list of its own where keys are listed', async () => {
    const statusOf = async (allow: AllowedKeys, body: object) => {
      serveBroker({ allow })
      await ask(unwrapPath(), { body })
      return service.requests.splice(0).length
    }
    const data = { ...index, purpose: 'data' }
    for (const [allow, body, passed] of [
      [{ unwrap: [keyId] }, index, 0],
      [{ unwrap: [keyId] }, data, 1],
      [{ unwrap: [keyId] }, { wrapped_key: 'AAAA' }, 1],
      [{ unwrap_index: [keyId] }, index, 1],
      [{ unwrap_index: [keyId] }, data, 0],
      [{ unwrap_index: [keyId] }, { wrapped_key: 'AAAA' }, 0],
    ] as const) {
      expect([allow, body, await statusOf(allow, body)]).toEqual([allow, body, passed])
    }
  })
})

describe('a broker at the top of a module', () => {
  it.each([
    ['baseUrl', { baseUrl: undefined }],
    ['baseUrl', { baseUrl: '' }],
    ['apiKey', { apiKey: undefined }],
  ])('is made where the environment is missing, and reports it at the first request: %s', async (name, options) => {
    const errors: unknown[] = []
    serveBroker({ ...options, onError: (error) => errors.push(error) })
    const { status, text } = await ask(wrapPath(), wrapBody)
    expect([status, text.includes(name)]).toEqual([500, false])
    expect(errors).toMatchObject([{ code: 'E_INVALID_INPUT', message: expect.stringContaining(`${name} is missing`) }])
    expect(service.requests).toEqual([])
  })
})
