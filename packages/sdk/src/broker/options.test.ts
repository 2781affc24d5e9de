// A broker's options are checked when it is made, or reported at the first request.
import { describe, expect, it } from 'vitest'
import { ask, DEK, keyId, makeBroker, serveBroker, service, useBroker, wrapPath } from '../test-support/broker.js'

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
    ['allow', { allow: { indexSecret: ['users'] } }],
    ['allow', { allow: { blind_hash: [] } }],
    ['allow', { allow: { unwrap_index: [] } }],
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
})

describe('blinded values', () => {
  const path = '/api/eaas/v1/hash/blind'
  /** The generator of ristretto255 (RFC 9496 A.1). */
  const element = '4vKuCmq8TnGohKlhxQBRX1jjC2qlgt2NtqZZReCNLXY='
  const elements = [element, element]

  it('are allowed by their number, and passed on alone and in a batch, without anything else', async () => {
    const calls: unknown[] = []
    serveBroker({ allow: (_, call) => calls.push(call) > 0 })
    const alone = await ask(path, { body: { elements, key_id: keyId, suite: 'ristretto255-SHA512', note: 'x' } })
    expect([alone.status, alone.body.elements.length, alone.body.key_id]).toEqual([200, 2, keyId])
    const operations = [{ op: 'blind_hash', key_id: keyId, elements: [element] }]
    const { body } = await ask('/api/eaas/v1/batch', { body: { operations } })
    expect(body.results).toMatchObject([{ status: 200, body: { elements: alone.body.elements.slice(1) } }])
    const call = { operation: 'blindHash', key_id: keyId }
    expect(calls).toEqual([
      { ...call, elements: 2 },
      { ...call, elements: 1 },
    ])
    expect(service.requests.map(({ body }) => JSON.parse(body))).toEqual([{ elements, key_id: keyId }, { operations }])
  })

  it('need `blindHash`, and each counts as a call', async () => {
    for (const [allow, status] of [
      [{ blindHash: [keyId] }, 200],
      [{ unwrap: [keyId], hash: [keyId], indexSecret: [keyId] }, 403],
    ] as const) {
      serveBroker({ allow })
      expect((await ask(path, { body: { elements, key_id: keyId } })).status).toBe(status)
    }
    serveBroker({ limits: { callsPerMinute: 3 } })
    const two = () => ask(path, { body: { elements, key_id: keyId } })
    expect([(await two()).status, (await two()).body.code]).toEqual([200, 'E_TOO_MANY_CALLS'])
  })

  it.each<[string, unknown]>([
    ['no list', undefined],
    ['text', element],
    ['an empty list', []],
    ['257', Array.from({ length: 257 }, () => element)],
    ['a number', [7]],
    ['33 bytes', [Buffer.alloc(33).toString('base64')]],
    ['base64 that is not canonical', [element.replace('XY=', 'XZ=')]],
  ])('are refused before the service is asked: %s', async (_, wrong) => {
    const { status, body } = await ask(path, { body: { elements: wrong, key_id: keyId } })
    expect([status, body.code]).toEqual([400, 'E_VALIDATION'])
    expect(service.requests).toEqual([])
  })
})
