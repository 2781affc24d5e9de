import { expect } from 'vitest'
import type { Permission } from '../../../packages/sdk/src/index.js'
import { type ContractCase, refusal } from './contract-case.js'
import { DAY_MS, MINUTE_MS } from './scene.js'

const ALL: Permission[] = [
  'encrypt',
  'decrypt',
  'wrap',
  'unwrap',
  'hash',
  'keys:read',
  'keys:create',
  'keys:rotate',
  'keys:disable',
  'keys:destroy',
  'keys:export',
  'audit:read',
  'audit:on_behalf_of',
  'api_keys:read',
  'api_keys:manage',
]

export const API_KEY_CASES: ContractCase[] = [
  {
    rule: 'are created, listed, changed and revoked, with all their fields',
    async run({ connect, now }) {
      const { apiKeys, audit } = connect()
      const expires_at = new Date(now() + DAY_MS)
      const { secret, ...created } = await apiKeys.create({
        name: 'reader — 客户',
        permissions: ['decrypt', 'keys:read', 'decrypt'],
        expires_at,
        allowed_ips: ['127.0.0.1', '2001:db8::/32', '127.0.0.1'],
      })
      expect(created).toMatchObject({ permissions: ['decrypt', 'keys:read'], status: 'active' })
      expect(created.allowed_ips).toEqual(['127.0.0.1', '2001:db8::/32'])
      expect(secret.startsWith(created.prefix)).toBe(true)
      expect((await apiKeys.list()).api_keys.at(-1)).toEqual(created)
      expect(await apiKeys.update(created.id, {})).toEqual(created)
      await apiKeys.update(created.id, {
        name: 'r',
        permissions: ['encrypt', 'encrypt'],
        expires_at: '2030-01-01T00:00:00.9999+02:00',
      })
      const cleared = await apiKeys.update(created.id, { expires_at: null, allowed_ips: null })
      expect([cleared.name, 'expires_at' in cleared, 'allowed_ips' in cleared]).toEqual(['r', false, false])
      await apiKeys.update(created.id, { allowed_ips: null })
      await apiKeys.revoke(created.id)
      await apiKeys.revoke(created.id)
      expect((await apiKeys.list()).api_keys.at(-1)?.status).toBe('revoked')
      expect(await refusal(apiKeys.update(created.id, { name: 'x' }))).toBe('409 E_STATE')
      await audit.list()
    },
  },
  {
    rule: 'that are revoked meanwhile seal for an hour and open for 5 minutes with the DEKs that a client holds',
    async run({ connect, passForClients }) {
      const owner = connect()
      const { id: keyId } = await owner.keys.create({ name: 'users' })
      const { id, secret } = await owner.apiKeys.create({ name: 'app', permissions: ['encrypt', 'decrypt'] })
      const [writer, reader] = [connect(secret), connect(secret)]
      const envelope = await writer.encrypt('before', { keyId })
      expect(await reader.decryptText(envelope)).toBe('before')
      await owner.apiKeys.revoke(id)
      passForClients(4 * MINUTE_MS)
      const later = await writer.encrypt('after', { keyId })
      for (const eaas of [writer, reader]) expect(await eaas.decryptText(later)).toBe('after')
      expect(await refusal(reader.encrypt('x', { keyId }))).toBe('401 E_UNAUTHORIZED')
      passForClients(MINUTE_MS)
      for (const eaas of [writer, reader]) expect(await refusal(eaas.decrypt(envelope))).toBe('401 E_UNAUTHORIZED')
      passForClients(48 * MINUTE_MS) // at 54 the next one would be made ready
      expect((await writer.encrypt('x', { keyId })).wrapped_key).toBe(envelope.wrapped_key)
      passForClients(7 * MINUTE_MS)
      expect(await refusal(writer.encrypt('x', { keyId }))).toBe('401 E_UNAUTHORIZED')
      const { logs } = await owner.audit.list({ key_id: keyId })
      expect(logs.map(({ action }) => action)).toEqual(['key.unwrap', 'key.wrap', 'key.create'])
    },
  },
  {
    rule: 'open until they expire or are revoked, and are answered alike then',
    async run({ connect, pass, now }) {
      const { apiKeys, audit } = connect()
      const expires_at = new Date(now() + 60_000).toISOString()
      const short = await apiKeys.create({ name: 'short', permissions: ['keys:read'], expires_at })
      const long = await apiKeys.create({ name: 'long', permissions: ['keys:read'] })
      await connect(short.secret).keys.list()
      await connect(long.secret).keys.list()
      await pass(60_000)
      await apiKeys.revoke(long.id)
      for (const secret of [
        short.secret,
        long.secret,
        `${long.secret.slice(0, -1)}!`,
        `${long.secret}x`,
        'eaas_sk_x',
        'x',
      ]) {
        expect(await refusal(connect(secret).keys.list())).toBe('401 E_UNAUTHORIZED')
      }
      expect((await apiKeys.list()).api_keys.map(({ status }) => status)).toEqual(['active', 'expired', 'revoked'])
      const renewed = await apiKeys.update(short.id, { expires_at: new Date(now() + 60_000) })
      expect(renewed.status).toBe('active')
      await connect(short.secret).keys.list()
      await audit.list()
    },
  },
  {
    rule: 'that are limited to keys use, list and manage these alone',
    options: { serverMode: true },
    async run({ connect }) {
      const owner = connect()
      const inside = await owner.keys.create({ name: 'people/7' })
      const listed = await owner.keys.create({ name: 'orders' })
      const outside = await owner.keys.create({ name: 'people' })
      const { id, secret, keys } = await owner.apiKeys.create({
        name: 'limited',
        permissions: ALL,
        keys: ['people/*', listed.id, 'people/*'],
      })
      expect(keys).toEqual(['people/*', listed.id])
      const eaas = connect(secret)
      expect((await eaas.keys.list()).keys.map(({ name }) => name)).toEqual(['people/7', 'orders'])
      expect((await eaas.keys.list({ name: 'people' })).count).toBe(0)
      for (const { id: keyId } of [inside, listed]) {
        expect(await eaas.decryptText(await eaas.encrypt('x', { keyId }))).toBe('x')
        await eaas.hash('x', { keyId })
      }
      const made = await eaas.keys.create({ name: 'people/8' })
      await eaas.keys.rotate(made.id)
      const { ok, failed } = await eaas.keys.createMany([
        { name: 'people/9' },
        { name: 'others/9' },
        { name: 'people' },
      ])
      expect([ok.length, failed.length]).toEqual([1, 2])
      for (const name of ['others/8', 'people', 'new'])
        expect(await refusal(eaas.keys.create({ name }))).toBe('403 E_MISSING_PERMISSION')
      for (const call of [
        () => eaas.encrypt('x', { keyId: outside.id }),
        () => eaas.hash('x', { keyId: outside.id }),
        () => eaas.keys.get(outside.id),
        () => eaas.keys.rotate(outside.id),
        () => eaas.keys.disable(outside.id),
        () => eaas.keys.export(outside.id),
      ]) {
        expect(await refusal(call())).toBe('404 E_NOT_FOUND')
      }
      await owner.apiKeys.update(id, { keys: [] })
      expect((await eaas.keys.list()).count).toBe(0)
      expect(await refusal(eaas.keys.get(inside.id))).toBe('404 E_NOT_FOUND')
      expect(await owner.apiKeys.update(id, { keys: null })).not.toHaveProperty('keys')
      await eaas.keys.get(outside.id)
      await owner.audit.list()
    },
  },
  {
    rule: 'that are limited to keys grant these alone, and see only API keys that are limited to some of them',
    async run({ connect }) {
      const owner = connect()
      const inside = await owner.keys.create({ name: 'people/7' })
      const outside = await owner.keys.create({ name: 'shop/7' })
      const permissions: Permission[] = ['api_keys:manage', 'api_keys:read', 'encrypt']
      const { id, secret } = await owner.apiKeys.create({ name: 'm', permissions, keys: ['people/*'] })
      const wide = await owner.apiKeys.create({ name: 'w', permissions: ['encrypt'] })
      const other = await owner.apiKeys.create({
        name: 'o',
        permissions: ['encrypt'],
        keys: ['people/*', outside.id],
      })
      const manager = connect(secret)
      const grant = (keys?: string[] | null) => manager.apiKeys.create({ name: 'g', permissions: ['encrypt'], keys })
      for (const keys of [undefined, null, ['shop/*'], ['people/*', 'shop/*'], ['/*']])
        expect(await refusal(grant(keys))).toBe('403 E_MISSING_PERMISSION')
      for (const keys of [[outside.id], [inside.id, '00000000-0000-4000-8000-000000000000']])
        expect(await refusal(grant(keys))).toBe('404 E_NOT_FOUND')
      const given = await grant([inside.id, 'people/eu/*'])
      const none = await grant([])
      const { api_keys } = await manager.apiKeys.list()
      expect(api_keys.map((one) => one.id)).toEqual([id, given.id])
      for (const hidden of [wide.id, other.id, none.id]) {
        expect(await refusal(manager.apiKeys.update(hidden, { name: 'x' }))).toBe('404 E_NOT_FOUND')
        expect(await refusal(manager.apiKeys.revoke(hidden))).toBe('404 E_NOT_FOUND')
      }
      expect(await refusal(manager.apiKeys.update(id, { keys: null }))).toBe('403 E_MISSING_PERMISSION')
      await manager.apiKeys.update(given.id, { keys: ['people/*'] })
      // Who adds keys grants every permission on them.
      const some = await owner.apiKeys.create({ name: 's', permissions: ['api_keys:manage'] })
      const narrow = connect(some.secret)
      expect(await refusal(narrow.apiKeys.update(given.id, { keys: null }))).toBe('403 E_MISSING_PERMISSION')
      expect(await refusal(narrow.apiKeys.update(given.id, { keys: ['/*'] }))).toBe('403 E_MISSING_PERMISSION')
      await narrow.apiKeys.update(given.id, { keys: [inside.id] })
      await owner.audit.list()
    },
  },
  {
    rule: 'have the budgets that they are given, unless they could lead around them',
    async run({ connect }) {
      const { apiKeys } = connect()
      const budgets = { unwrap: { per_day: 2 }, hash: { per_day: 1 }, when_over: 'expire' } as const
      const { id, ...made } = await apiKeys.create({ name: 'b', permissions: ['encrypt', 'decrypt'], budgets })
      expect(made.budgets).toEqual(budgets)
      expect(await apiKeys.update(id, { budgets: { hash: { per_day: 9 } } })).not.toHaveProperty('budgets.unwrap')
      expect(await apiKeys.update(id, { budgets: null })).not.toHaveProperty('budgets')
      const manages = { name: 'm', permissions: ['api_keys:manage'] as Permission[], budgets }
      expect(await refusal(apiKeys.create(manages))).toBe('400 E_VALIDATION')
    },
  },
  {
    rule: 'are given a wider use by those alone who have their permissions',
    async run({ connect }) {
      const owner = connect()
      const far = '2126-01-01T00:00:00.000Z'
      const further = '2126-01-02T00:00:00.000Z'
      const limits = { expires_at: far, allowed_ips: ['10.9.9.0/24'], budgets: { unwrap: { per_day: 1 } } }
      const { id } = await owner.apiKeys.create({ name: 'x', permissions: ['unwrap'], ...limits })
      const manager = connect((await owner.apiKeys.create({ name: 'm', permissions: ['api_keys:manage'] })).secret)
      for (const wider of [
        { expires_at: null },
        { expires_at: further },
        { allowed_ips: null },
        { allowed_ips: ['10.9.9.0/24', '10.9.8.0/24'] },
        { budgets: null },
        { budgets: { hash: { per_day: 1 } } },
      ]) {
        expect(await refusal(manager.apiKeys.update(id, wider))).toBe('403 E_MISSING_PERMISSION')
        await owner.apiKeys.update(id, wider)
        await owner.apiKeys.update(id, limits)
      }
      // Narrower it may be made by each who manages API keys.
      await manager.apiKeys.update(id, { allowed_ips: ['10.9.9.0/24'], name: 'y', permissions: [] })
    },
  },
  {
    rule: 'of no key are managed by those alone who are limited to none',
    async run({ connect }) {
      const owner = connect()
      const auditor = await owner.apiKeys.create({ name: 'auditor', permissions: ['audit:read'], keys: [] })
      for (const keys of [[], ['shop/*']]) {
        const permissions: Permission[] = ['api_keys:manage', 'api_keys:read', 'audit:read']
        const { secret } = await owner.apiKeys.create({ name: 'm', permissions, keys })
        const { apiKeys } = connect(secret)
        expect((await apiKeys.list()).api_keys.map(({ id }) => id)).not.toContain(auditor.id)
        expect(await refusal(apiKeys.update(auditor.id, { permissions: [] }))).toBe('404 E_NOT_FOUND')
        expect(await refusal(apiKeys.revoke(auditor.id))).toBe('404 E_NOT_FOUND')
      }
      expect((await owner.apiKeys.update(auditor.id, { name: 'a' })).name).toBe('a')
    },
  },
  {
    rule: 'with hash alone may hash, and nothing else',
    async run({ connect }) {
      const owner = connect()
      const { id: keyId } = await owner.keys.create({ name: 'users' })
      const eaas = connect((await owner.apiKeys.create({ name: 'searching', permissions: ['hash'] })).secret)
      expect(await eaas.hash('ada', { keyId })).toBe(await owner.hash('ada', { keyId }))
      expect(await refusal(eaas.encrypt('x', { keyId }))).toBe('403 E_MISSING_PERMISSION')
      expect(await refusal(eaas.keys.list())).toBe('403 E_MISSING_PERMISSION')
      const { secret } = await owner.apiKeys.create({ name: 'other', permissions: ['keys:read', 'decrypt'] })
      expect(await refusal(connect(secret).hash('ada', { keyId }))).toBe('403 E_MISSING_PERMISSION')
    },
  },
]
