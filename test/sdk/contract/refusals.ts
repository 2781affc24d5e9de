import { expect } from 'vitest'
import type { ContractCase } from './contract-case.js'

const JSON_TYPE = { 'content-type': 'application/json' }
const dek = Buffer.alloc(32, 5).toString('base64')

export const REFUSAL_CASES: ContractCase[] = [
  {
    rule: 'come before anything is read of a caller without a valid API key',
    async run({ connect, raw }) {
      const { secret } = await connect().apiKeys.create({ name: 'x', permissions: [] })
      for (const authorization of ['', 'Bearer', 'Bearer ', `Bearer  ${secret}`, `Basic ${secret}`, secret]) {
        expect([authorization, await raw('GET', '/v1/keys', undefined, { authorization })]).toEqual([
          authorization,
          401,
        ])
        expect([authorization, await raw('POST', '/v1/keys', '{', { ...JSON_TYPE, authorization })]).toEqual([
          authorization,
          401,
        ])
      }
      for (const scheme of ['bearer', 'BEARER', 'bEARER']) {
        const headers = { authorization: `${scheme} ${secret}` }
        expect([scheme, await raw('POST', '/v1/keys', '{', { ...JSON_TYPE, ...headers })]).toEqual([scheme, 403])
      }
      // Permission, too, is looked at before the body is.
      expect(await raw('POST', '/v1/keys', '{', { ...JSON_TYPE, authorization: `Bearer ${secret}` })).toBe(403)
    },
  },
  {
    rule: 'of what is nowhere, or is asked for in another way',
    async run({ raw }) {
      for (const path of ['/v1/nothing', '/v1', '/', '/V1/keys', '/v1/keys/x/y', '/v1//keys']) {
        expect([path, await raw('GET', path)]).toEqual([path, 404])
      }
      for (const [method, path] of [
        ['PUT', '/v1/keys'],
        ['GET', '/v1/hash'],
        ['POST', '/v1/audit'],
        ['DELETE', '/v1/tenant'],
        ['GET', '/v1/keys/x/rotate'],
        ['POST', '/health'],
      ] as const) {
        expect([path, await raw(method, path)]).toEqual([path, 405])
      }
    },
  },
  {
    rule: 'of bodies that are not JSON, not in UTF-8, or too large',
    async run({ raw }) {
      const bodies: [number, string, Record<string, string>][] = [
        [400, '{', JSON_TYPE],
        [400, '{"name":"x",}', JSON_TYPE],
        [400, '\ufeff{"name":"x"}', JSON_TYPE],
        [400, '', JSON_TYPE],
        [400, '[]', JSON_TYPE],
        [400, '"x"', JSON_TYPE],
        [400, 'null', JSON_TYPE],
        [201, '{"name":"a"}', { 'content-type': 'application/json; charset=UTF-8' }],
        [201, '{"name":"x","name":"b"}', JSON_TYPE],
        [201, '{"name":"c","__proto__":{"name":1},"constructor":1,"algorithm":"AES-256-GCM"}', JSON_TYPE],
        [415, '{"name":"d"}', { 'content-type': 'text/plain' }],
        [415, '{"name":"d"}', { 'content-type': 'application/json; charset=utf-16' }],
        [415, '{"name":"d"}', { 'content-type': 'application/problem+json' }],
        [415, 'name=d', { 'content-type': 'application/x-www-form-urlencoded' }],
        [413, JSON.stringify({ name: 'x'.repeat(1_048_576) }), JSON_TYPE],
      ]
      for (const [status, body, headers] of bodies) {
        const shown = body.slice(0, 60)
        expect([shown, headers, await raw('POST', '/v1/keys', body, headers)]).toEqual([shown, headers, status])
      }
    },
  },
  {
    rule: 'of fields that are missing or of another kind name the field',
    async run({ connect, raw }) {
      const { id } = await connect().keys.create({ name: 'users' })
      const on = `/v1/keys/${id}`
      const bodies: [string, string, unknown[]][] = [
        [
          'POST',
          '/v1/keys',
          [
            {},
            { name: null },
            { name: '' },
            { name: 'x'.repeat(256) },
            { name: 'a\0' },
            { name: 'x', algorithm: 'AES-128-GCM' },
          ],
        ],
        [
          'PATCH',
          `${on}/rotation`,
          [{}, { interval_days: 0 }, { interval_days: 3_651 }, { interval_days: 1.5 }, { interval_days: '1' }],
        ],
        ['POST', `${on}/wrap`, [{}, { dek: 1 }]],
        ['POST', `${on}/unwrap`, [{}, { wrapped_key: {} }]],
        ['POST', `${on}/destroy`, [{}, { confirm: 1 }]],
        [
          'POST',
          '/v1/hash',
          [{}, { value: 'x' }, { key_id: id }, { key_id: id, value: 1 }, { key_id: id, value: '\ud800' }],
        ],
      ]
      for (const value of ['\0', 'a\0b', '']) {
        expect(await raw('POST', '/v1/hash', { key_id: id, value })).toBe(200)
      }
      for (const [method, path, wrong] of bodies) {
        for (const body of wrong) expect([path, body, await raw(method, path, body)]).toEqual([path, body, 400])
      }
    },
  },
  {
    rule: 'of queries that are not understood, which are never ignored',
    async run({ raw }) {
      for (const query of [
        '/v1/audit?limit=0',
        '/v1/audit?limit=-1',
        '/v1/audit?limit=1e3',
        '/v1/audit?limit=',
        '/v1/audit?limit=+5',
        '/v1/audit?offset=-1',
        '/v1/audit?limit=00000000000000000000',
        '/v1/audit?offset=99999999999999999999',
        '/v1/audit?after_id=x',
        '/v1/audit?order=up',
        '/v1/audit?action=key.steal',
        '/v1/audit?key_id=users',
        '/v1/audit?date_from=2026-02-30T00:00:00Z',
        '/v1/audit?date_from=2026-02-03',
        '/v1/audit?date_from=2026-02-03T24:00:00Z',
        '/v1/audit?date_to=2026-02-03T23:59:60Z',
        '/v1/audit?date_to=2026-02-03T00:00:00',
        '/v1/audit?date_to=2026-13-03T00:00:00Z',
        '/v1/audit?date_to=1',
        '/v1/keys?status=alive',
        '/v1/keys?limit=0',
        '/v1/keys?offset=1.5',
        '/v1/keys?name=%00',
        '/v1/usage?month=2026-13',
        '/v1/usage?month=2026',
        '/v1/usage?month=',
        '/v1/audit?unknown=1',
      ]) {
        expect([query, await raw('GET', query)]).toEqual([query, 400])
      }
      for (const digits of [17, 20, 400]) {
        const limit = '9'.repeat(digits)
        expect([digits, await raw('GET', `/v1/audit?limit=${limit}`)]).toEqual([digits, 200])
        expect([digits, await raw('GET', `/v1/keys?limit=${limit}`)]).toEqual([digits, 200])
      }
    },
  },
  {
    rule: 'of a batch: as a whole where it is none, one by one where its parts are wrong',
    async run({ connect, raw }) {
      const eaas = connect()
      const { id: key_id } = await eaas.keys.create({ name: 'users' })
      const hash = { op: 'hash', key_id, value: 'x' }
      for (const body of [
        {},
        { operations: [] },
        { operations: 7 },
        { operations: [7] },
        { operations: [{ ...hash, op: 'rotate' }] },
        { operations: [{ ...hash, op: undefined }] },
        { operations: [hash, null] },
        { operations: Array.from({ length: 1_001 }, () => hash) },
      ]) {
        expect(await raw('POST', '/v1/batch', body)).toBe(400)
      }
      const operations = [
        hash,
        { op: 'hash', key_id: 'users', value: 'x' },
        { op: 'hash', key_id: 7, value: 'x' },
        { op: 'hash', value: 'x' },
        { op: 'hash', key_id },
        { op: 'wrap', key_id, dek },
        { op: 'wrap', key_id, dek: 'AAAA' },
        { op: 'unwrap', key_id, wrapped_key: 'AAAA' },
        { op: 'unwrap', key_id, wrapped_key: '!' },
        { op: 'rewrap', key_id, wrapped_key: 'AAAA' },
        { op: 'encrypt', key_id, plaintext: 'x' },
      ]
      expect(await raw('POST', '/v1/batch', { operations })).toBe(200)
      const { secret } = await eaas.apiKeys.create({ name: 'x', permissions: ['encrypt'] })
      expect(await raw('POST', '/v1/batch', { operations }, { authorization: `Bearer ${secret}` })).toBe(200)
      const thousand = Array.from({ length: 1_000 }, () => ({ op: 'wrap', key_id, dek }))
      expect(await raw('POST', '/v1/batch', { operations: thousand })).toBe(200)
      await eaas.audit.list()
    },
  },
]
