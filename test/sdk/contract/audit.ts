import { expect } from 'vitest'
import type { Permission } from '../../../packages/sdk/src/index.js'
import { type ContractCase, refusal } from './contract-case.js'
import { DAY_MS } from './scene.js'

export const AUDIT_CASES: ContractCase[] = [
  {
    rule: 'has an entry for each change and each use, and none for what was refused or read',
    async run({ connect, raw }) {
      const eaas = connect()
      const { id: keyId } = await eaas.keys.create({ name: 'users' })
      await eaas.keys.list()
      await eaas.keys.get(keyId)
      await eaas.hash('x', { keyId })
      await raw('POST', '/v1/keys', { name: 'users' })
      const { logs, total } = await eaas.audit.list()
      expect(logs.map(({ action, actor }) => [action, actor === 'system'])).toEqual([
        ['key.create', false],
        ['api_key.create', true],
      ])
      expect(total).toBe(2)
    },
  },
  {
    rule: 'has the name of a key and of an API key in the entries that make, change and rename it',
    async run({ connect }) {
      const { keys, apiKeys, audit } = connect()
      await keys.create({ name: 'shop/till' })
      await keys.createMany([{ name: 'a\u200b' }])
      const { id } = await apiKeys.create({ name: 'one', permissions: [] })
      await apiKeys.update(id, { name: 'two' })
      await apiKeys.update(id, { permissions: ['hash'] })
      const { logs } = await audit.list({ order: 'asc' })
      expect(logs.map(({ metadata: { name, name_before } }) => [name, name_before])).toEqual([
        ['first key', undefined],
        ['shop/till', undefined],
        ['a\u200b', undefined],
        ['one', undefined],
        ['two', 'one'],
        ['two', undefined],
      ])
    },
  },
  {
    rule: 'has ids in lower case, as answers do, in whatever case a path, a query or a body names them',
    options: { serverMode: true },
    async run({ connect, service, pass }) {
      const { keys, apiKeys } = connect()
      const { id } = await keys.create({ name: 'users' })
      const { id: apiKeyId } = await apiKeys.create({ name: 'one', permissions: [] })
      const [ID, API_KEY] = [id.toUpperCase(), apiKeyId.toUpperCase()]
      const dek = 'AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8='
      // biome-ignore lint/suspicious/noExplicitAny: the answers of many calls
      const call = async (method: string, path: string, body?: unknown): Promise<any> => {
        const headers = { authorization: `Bearer ${service.apiKey}`, 'content-type': 'application/json' }
        const sent = body === undefined ? {} : { body: JSON.stringify(body) }
        const answer = await service.fetch(service.baseUrl + path, { method, headers, ...sent })
        const text = await answer.text()
        const said = [answer.ok, text.includes(ID) || text.includes(API_KEY)]
        expect([method, path, ...said]).toEqual([method, path, true, false])
        return text === '' ? undefined : JSON.parse(text)
      }
      const { wrapped_key } = await call('POST', `/v1/keys/${ID}/wrap`, { dek })
      const sealed = await call('POST', '/v1/encrypt', { key_id: ID, plaintext: 'x' })
      await call('POST', '/v1/decrypt', { ...sealed, key_id: ID })
      const hashed = await call('POST', '/v1/hash', { key_id: ID, value: 'x' })
      expect(hashed).toEqual(await call('POST', '/v1/hash', { key_id: id, value: 'x' }))
      const bodies = [
        ...[
          { dek, op: 'wrap' },
          { wrapped_key, op: 'unwrap' },
          { wrapped_key, op: 'rewrap' },
          { value: 'x', op: 'hash' },
        ],
        ...[
          { plaintext: 'x', op: 'encrypt' },
          { ...sealed, op: 'decrypt' },
        ],
      ]
      const operations = bodies.map((body) => ({ ...body, key_id: ID }))
      const { results } = await call('POST', '/v1/batch', { operations })
      expect(results.map(({ status }: { status: number }) => status)).toEqual(operations.map(() => 200))
      await call('POST', `/v1/keys/${ID}/unwrap`, { wrapped_key })
      await call('POST', `/v1/keys/${ID}/rewrap`, { wrapped_key })
      await call('GET', `/v1/keys/${ID}`)
      await call('POST', `/v1/keys/${ID}/rotate`)
      await call('PATCH', `/v1/keys/${ID}/rotation`, { interval_days: 30 })
      await call('PATCH', `/v1/keys/${ID}`, { min_unwrap_version: 2 })
      await call('POST', `/v1/keys/${ID}/export`)
      await pass(7 * DAY_MS)
      await call('POST', `/v1/keys/${ID}/versions/1/destroy`, { confirm: 'users' })
      await call('DELETE', `/v1/keys/${ID}`)
      await call('POST', `/v1/keys/${ID}/enable`)
      await call('DELETE', `/v1/keys/${ID}`)
      await call('POST', `/v1/keys/${ID}/destroy`, { confirm: 'users' })
      await call('POST', `/v1/keys/${ID}/destroy/cancel`)
      const { keys: list } = await call('PATCH', `/v1/api-keys/${API_KEY}`, { keys: [ID, 'x/*'] })
      expect(list).toEqual([id, 'x/*'])
      expect((await call('POST', '/v1/api-keys', { name: 'two', permissions: [], keys: [ID] })).keys).toEqual([id])
      const lower = await call('GET', `/v1/audit?key_id=${id}`)
      expect(await call('GET', `/v1/audit?key_id=${ID}`)).toEqual(lower)
      const { logs } = await call('GET', `/v1/audit?actor=${lower.logs[0].actor.toUpperCase()}&limit=100`)
      expect(logs.length).toBeGreaterThan(10)
      expect(logs.some(({ key_id }: { key_id: string | null }) => key_id === id)).toBe(true)
      await call('DELETE', `/v1/api-keys/${API_KEY}`)
    },
  },
  {
    rule: 'names the key and its version in each entry about a key, in the metadata too, which is always an object',
    async run({ connect, pass }) {
      const eaas = connect()
      const { id: keyId } = await eaas.keys.create({ name: 'users' })
      const envelope = await eaas.encrypt('x', { keyId, envelope: 1 })
      await connect().decrypt(envelope)
      await eaas.keys.rotate(keyId)
      await eaas.rewrap(envelope)
      await eaas.keys.setRotation(keyId, 90)
      await eaas.keys.setRotation(keyId, null)
      await eaas.keys.export(keyId)
      await refusal(eaas.server.encrypt('x', { keyId }))
      await refusal(eaas.server.decrypt(envelope))
      await eaas.keys.disable(keyId)
      await eaas.keys.enable(keyId)
      await eaas.keys.disable(keyId)
      await eaas.keys.destroy(keyId, 'users')
      await eaas.keys.cancelDestruction(keyId)
      await eaas.keys.destroy(keyId, 'users')
      await pass(8 * DAY_MS)
      const { logs } = await eaas.audit.list({ order: 'asc' })
      const versions = [1, 1, 1, 2, 2, 2, 2, 2, 2, 1, 2, 2, 2, 2, 2, 2, 2]
      expect(
        logs
          .slice(1)
          .map(({ action, key_id, key_version, metadata }) => [action, key_id, key_version, metadata.key_version]),
      ).toEqual(
        [
          'key.create',
          'key.wrap',
          'key.unwrap',
          'key.rotate',
          'key.wrap',
          'key.rotation_policy',
          'key.rotation_policy',
          'key.export',
          'envelope_only.refused',
          'envelope_only.refused',
          'key.disable',
          'key.enable',
          'key.disable',
          'key.destroy',
          'key.destroy',
          'key.destroy',
          'key.destroy',
        ].map((action, at) => [action, keyId, versions[at], versions[at]]),
      )
      expect(logs[0]?.metadata).toMatchObject({ api_key_id: expect.any(String) })
    },
  },
  {
    rule: 'names the key of a refusal only where the tenant has it',
    async run({ connect, raw }) {
      const eaas = connect()
      const { id: key_id } = await eaas.keys.create({ name: 'users' })
      const headers = { 'content-type': 'text/plain' }
      const other = key_id.replace(/^.{8}/, '00000000')
      for (const body of [
        { key_id },
        { key_id, key_version: 9 },
        { key_id: other },
        { key_id: [key_id] },
        [key_id],
        null,
      ]) {
        expect(await raw('POST', '/v1/decrypt', body)).toBe(403)
      }
      expect(await raw('POST', '/v1/encrypt', JSON.stringify({ key_id }), headers)).toBe(403)
      expect(await raw('POST', '/v1/encrypt', JSON.stringify({ key_id }).slice(1), headers)).toBe(403)
      const operations = [
        { op: 'encrypt', key_id },
        { op: 'decrypt', key_id: other },
      ]
      expect(await raw('POST', '/v1/batch', { operations })).toBe(200)
      const { logs } = await eaas.audit.list({ action: 'envelope_only.refused', order: 'asc' })
      const named = [key_id, 1]
      const none = [null, null]
      expect(logs.map((entry) => [entry.key_id, entry.key_version])).toEqual([
        named,
        named,
        none,
        none,
        none,
        none,
        named,
        none,
        named,
        none,
      ])
    },
  },
  {
    rule: 'is listed by page, order, key, action, actor and time',
    async run({ connect, pass, now, raw }) {
      const eaas = connect()
      const { audit, keys } = eaas
      const { id: a } = await keys.create({ name: 'a' })
      await pass(1_000)
      const { id: b } = await keys.create({ name: 'b' })
      const middle = new Date(now())
      for (const id of [a, b, a]) await keys.rotate(id)
      await pass(1_000)
      await keys.disable(a)
      const ids = async (options: Parameters<typeof audit.list>[0]) =>
        (await audit.list(options)).logs.map(({ id }) => id)
      expect(await ids({})).toEqual([7, 6, 5, 4, 3, 2, 1])
      expect(await ids({ order: 'asc', limit: 2 })).toEqual([1, 2])
      expect(await ids({ order: 'asc', limit: 2, offset: 6 })).toEqual([7])
      expect(await ids({ offset: 100 })).toEqual([])
      expect(await ids({ after_id: 5 })).toEqual([7, 6])
      expect(await ids({ order: 'asc', after_id: 7 })).toEqual([])
      expect(await ids({ key_id: b })).toEqual([5, 3])
      expect(await ids({ action: 'key.rotate' })).toEqual([6, 5, 4])
      expect(await ids({ action: 'key.rotate', key_id: a, order: 'asc' })).toEqual([4, 6])
      expect(await ids({ action: 'key.export' })).toEqual([])
      expect(await ids({ actor: 'system' })).toEqual([1])
      expect(await ids({ on_behalf_of: 'ada' })).toEqual([])
      expect(await ids({ date_from: middle })).toEqual([7, 6, 5, 4, 3])
      expect(await ids({ date_to: middle })).toEqual([3, 2, 1])
      expect(await ids({ date_from: middle, date_to: middle })).toEqual([3])
      const finer = new Date(middle.getTime() + 7_200_000).toISOString().replace('Z', '0001+02:00')
      expect(await ids({ date_from: finer })).toEqual([7, 6, 5, 4])
      expect(await ids({ date_to: finer })).toEqual([3, 2, 1])
      expect(await ids({ date_from: '2026-06-01T00:00:00-00:00', date_to: middle })).toEqual([])
      expect(await raw('GET', '/v1/audit?date_from=0000-01-01T00:00:00Z&date_to=9999-12-31T23:59:59-23:59')).toBe(200)
      expect(await raw('GET', '/v1/audit?date_from=2016-12-31T23:59:60Z')).toBe(200)
      expect(await raw('GET', '/v1/audit?date_from=2016-12-31T12:00:60Z')).toBe(400)
      expect(await raw('GET', '/v1/audit?limit=1000')).toBe(200)
      for (const query of ['user=x', 'date_form=x', 'limit=5&limit=5', '__proto__=x']) {
        expect([query, await raw('GET', `/v1/audit?${query}`)]).toEqual([query, 400])
      }
      expect(await raw('GET', '/v1/usage?day=2026-05-31')).toBe(400)
      expect(await raw('GET', '/v1/tenant?_=1')).toBe(200)
    },
  },
  {
    rule: 'has no entry of a key or an actor whose id is all zeros: entries without one are not counted as theirs',
    async run({ connect, now }) {
      const { audit, keys, hash } = connect()
      const { id } = await keys.create({ name: 'a' })
      await hash('x', { keyId: id })
      const nil = '00000000-0000-0000-0000-000000000000'
      const [before, later] = [-2 * DAY_MS, 2 * DAY_MS].map((ms) => new Date(now() + ms))
      for (const filter of [
        {},
        { action: 'api_key.create' },
        { date_from: before, date_to: later },
        { action: 'api_key.create', date_from: before },
        { after_id: 0, date_to: later },
        { actor: 'system' },
        { purpose: 'data' },
        { on_behalf_of: 'ada' },
        { context: { model: 'a' } },
      ] as const) {
        expect([filter, await audit.list({ ...filter, key_id: nil })]).toMatchObject([filter, { logs: [], total: 0 }])
      }
      for (const filter of [{ actor: nil }, { actor: nil, key_id: nil }, { actor: '' }, { actor: nil, key_id: id }])
        expect([filter, await audit.list(filter)]).toMatchObject([filter, { logs: [], total: 0 }])
    },
  },
  {
    rule: 'is gone through entry by entry, either way',
    async run({ connect }) {
      const { audit, keys } = connect()
      await keys.createMany(Array.from({ length: 121 }, (_, at) => ({ name: `${at}` })))
      for (const order of ['asc', 'desc'] as const) {
        const seen: number[] = []
        for await (const entry of audit.entries({ order })) seen.push(entry.id)
        const all = Array.from({ length: 122 }, (_, at) => at + 1)
        expect(seen).toEqual(order === 'asc' ? all : all.reverse())
      }
    },
  },
  {
    rule: 'is verified: valid, with its head',
    async run({ connect, pass }) {
      const { audit, keys } = connect()
      const before = await audit.verify()
      await pass(1_000)
      await keys.create({ name: 'a' })
      const after = await audit.verify()
      expect(after).toMatchObject({ valid: true, total_entries: 2, verified_entries: 2, head: { id: 2 } })
      expect(after.head?.hash).not.toBe(before.head?.hash)
    },
  },
  {
    rule: 'has no entry of hashes and of refused calls: they are counted by day, API key and reason, also in a batch',
    options: { serverMode: true },
    async run({ connect, raw, pass }) {
      const eaas = connect()
      const { id: key_id } = await eaas.keys.create({ name: 'a' })
      const { key_version, ...bundle } = await eaas.server.encrypt('x', { keyId: key_id })
      for (const value of ['a', 'b', 'c', 'd']) await eaas.hash(value, { keyId: key_id })
      const operations = ['hash', 'unwrap', 'rewrap'].map((op) => ({ op, key_id, value: 'e', wrapped_key: 'AAAA' }))
      expect(await raw('POST', '/v1/batch', { operations })).toBe(200)
      expect(await raw('POST', `/v1/keys/${key_id}/unwrap`, { wrapped_key: 'AAAA' })).toBe(403)
      expect(await raw('POST', '/v1/decrypt', { ...bundle, key_version: key_version + 1 })).toBe(422)
      expect(await raw('POST', `/v1/keys/${key_id}/unwrap`, { wrapped_key: 'no base64' })).toBe(400)
      const [first] = (await eaas.apiKeys.list()).api_keys
      const { id, secret } = await eaas.apiKeys.create({ name: 'x', permissions: ['encrypt'] })
      const authorization = `Bearer ${secret}`
      const guesses = Array.from({ length: 9 }, () => ({ op: 'unwrap', key_id, wrapped_key: 'AAAA' }))
      expect(await raw('POST', '/v1/batch', { operations: guesses }, { authorization })).toBe(200)
      expect(await raw('GET', '/v1/keys', undefined, { authorization })).toBe(403)
      await eaas.apiKeys.revoke(id)
      for (let call = 0; call < 2; call++) {
        expect(await raw('GET', '/v1/keys', undefined, { authorization })).toBe(401)
      }
      const unknown = '00000000-0000-4000-8000-000000000000'
      const missing = Array.from({ length: 4 }, () => ({ op: 'hash', key_id: unknown, value: 'x' }))
      expect(await raw('POST', '/v1/batch', { operations: missing })).toBe(200)
      await eaas.keys.disable(key_id)
      const hashes = Array.from({ length: 5 }, () => ({ op: 'hash', key_id, value: 'x' }))
      expect(await raw('POST', '/v1/batch', { operations: hashes })).toBe(200)
      expect(await raw('POST', '/v1/hash', { key_id, value: 'x' })).toBe(409)
      await eaas.keys.enable(key_id)
      const counted = (day: string, kind: string, count: number, api_key_id = first?.id) => {
        return { day, api_key_id, kind, ip_address: '127.0.0.1', count }
      }
      const ofMay = [
        counted('2026-05-31', 'permission_refused', 10, id),
        counted('2026-05-31', 'state_refused', 6),
        counted('2026-05-31', 'hash', 5),
        counted('2026-05-31', 'unknown_id_refused', 4),
        counted('2026-05-31', 'wrapped_key_refused', 3),
        counted('2026-05-31', 'api_key_refused', 2, id),
        counted('2026-05-31', 'decryption_refused', 1),
        counted('2026-05-31', 'invalid_refused', 1),
      ]
      expect((await eaas.usage()).unrecorded).toEqual(ofMay)
      await pass(DAY_MS)
      await eaas.hash('f', { keyId: key_id })
      expect((await eaas.usage()).unrecorded).toEqual([counted('2026-06-01', 'hash', 1)])
      expect((await eaas.usage('2026-05')).unrecorded).toEqual(ofMay)
    },
  },
  {
    rule: 'is counted by month and action; the tenant and its health are told',
    // A server of its own: the logs of the cases before are ahead of the clock, which each case sets back.
    options: { destroyWindowDays: 28 },
    async run({ connect }) {
      const eaas = connect()
      const { id: keyId } = await eaas.keys.create({ name: 'a' })
      await eaas.encrypt('x', { keyId })
      expect(await eaas.usage()).toEqual({
        month: '2026-05',
        operations: { 'api_key.create': 1, 'key.create': 1, 'key.wrap': 1 },
        unrecorded: [],
        by_api_key: [],
      })
      expect((await eaas.usage('2026-05')).month).toBe('2026-05')
      expect((await eaas.usage('2026-06')).operations).toEqual({})
      expect((await eaas.tenant()).monthly_encrypt_quota).toBeNull()
      expect((await eaas.health()).status).toBe('healthy')
    },
  },
  {
    rule: 'is searched by a context with hash alone, for a key of the caller’s list, and is counted as a hash',
    async run({ connect, raw }) {
      const eaas = connect()
      const { id: keyId } = await eaas.keys.create({ name: 'users' })
      const dek = 'AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8='
      expect(await raw('POST', `/v1/keys/${keyId}/wrap`, { dek, context: { row: '7' } })).toBe(200)
      const auditorWith = async (permissions: Permission[]) => {
        return eaas.apiKeys.create({ name: 'auditor', permissions, keys: [keyId] })
      }
      const guess = (secret: string, row: string, of: { key_id?: string } = { key_id: keyId }) =>
        connect(secret).audit.list({ context: { row }, ...of })
      const reading = await auditorWith(['audit:read'])
      for (const row of ['7', '8', '9'])
        expect(await refusal(guess(reading.secret, row))).toBe('403 E_MISSING_PERMISSION')
      expect((await connect(reading.secret).audit.list({ purpose: 'data', context: {} })).total).toBe(1)
      const { secret, id } = await auditorWith(['audit:read', 'hash'])
      expect((await guess(secret, '7')).total).toBe(1)
      expect((await guess(secret, '8')).total).toBe(0)
      expect(await refusal(guess(secret, '7', {}))).toBe('400 E_VALIDATION')
      const { id: other } = await eaas.keys.create({ name: 'other' })
      expect(await refusal(guess(secret, '7', { key_id: other }))).toBe('404 E_NOT_FOUND')
      expect((await connect(secret).audit.list({ action: 'key.wrap' })).total).toBe(1)
      const counts = (await eaas.usage()).unrecorded.map(({ api_key_id, kind, count }) => [api_key_id, kind, count])
      expect(counts).toEqual([
        [reading.id, 'permission_refused', 3],
        [id, 'hash', 2],
        [id, 'invalid_refused', 1],
        [id, 'unknown_id_refused', 1],
      ])
    },
  },
]
