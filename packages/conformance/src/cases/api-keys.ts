/** API keys: what they may do, on which keys, how often and until when. */
import type { Permission } from '@eaas/protocol'
import { refusalOf, type Session } from '../session.js'
import { type Cases, check, Fault, NOWHERE, randomBase64, same } from './case.js'

const SOON_MS = 2_000
const POLL_MS = 500
const MAX_POLLS = 20

async function listed(session: Session, id: string) {
  const { api_keys, count } = await session.ok('listApiKeys')
  same(count, api_keys.length, 'count of listApiKeys')
  return api_keys.find((one) => one.id === id)
}

export const API_KEY_CASES: Cases = {
  async 'createApiKey, listApiKeys: show a secret once: the list has its record without it'(session) {
    const permissions = ['decrypt', 'keys:read', 'decrypt']
    const { secret, ...created } = await session.newApiKey({ permissions })
    check(secret.startsWith(created.prefix), 'the secret does not begin with the prefix')
    same([created.permissions, created.status], [['decrypt', 'keys:read'], 'active'], 'permissions and status')
    const { last_used_at: _, ...record } = (await listed(session, created.id)) ?? {}
    same(record, created, 'the record')
    const { text } = await session.call('listApiKeys')
    check(!text.includes(secret), 'the list shows the secret')
  },
  async 'updateApiKey: writes addresses and ranges in their canonical form, each once'(session) {
    const { id } = await session.newApiKey({ permissions: [] })
    const allowed_ips = ['10.0.0.5/8', '10.0.0.0/8', '2001:DB8::1/32', '::ffff:11.0.0.5/104', '192.168.1.7/0', '::1']
    const canonical = ['10.0.0.0/8', '2001:db8::/32', '11.0.0.0/8', '0.0.0.0/0', '::1']
    same((await session.ok('updateApiKey', { id, body: { allowed_ips } })).allowed_ips, canonical, 'allowed_ips')
  },
  async 'updateApiKey: keeps a member that is absent, clears it by null, and sets it otherwise'(session) {
    const members = { allowed_ips: ['192.0.2.1', '2001:db8::/32'], expires_at: '2099-01-01T00:00:00.000Z' }
    const { secret: _, ...created } = await session.newApiKey({ permissions: ['hash'], keys: ['a/*'], ...members })
    const update = (body: object) => session.ok('updateApiKey', { id: created.id, body })
    same(await update({}), created, 'after an empty change')
    const moved = await update({ expires_at: '2098-01-01T02:00:00+02:00', name: 'conformance renamed' })
    same([moved.expires_at, moved.name], ['2098-01-01T00:00:00.000Z', 'conformance renamed'], 'expires_at and name')
    const cleared = await update({ allowed_ips: null, expires_at: null, keys: null, permissions: null })
    same(cleared.permissions, [], 'permissions after null')
    for (const member of ['allowed_ips', 'expires_at', 'keys'])
      check(!(member in cleared), `${member} is still there after null`)
  },
  async 'createApiKey, updateApiKey: refuse members that they do not understand with 400 E_VALIDATION, naming them'(
    session,
  ) {
    const { id } = await session.newApiKey({ permissions: [] })
    for (const [member, values] of Object.entries(WRONG)) {
      for (const wrong of values) {
        for (const operation of ['updateApiKey', 'createApiKey'] as const) {
          const whole = operation === 'createApiKey' && { name: session.newName(), permissions: [] }
          const said = { id, body: { ...whole, [member]: wrong } }
          const { detail } = (await session.refused(operation, said, '400 E_VALIDATION')).body
          check(detail.startsWith(member), `${operation}: the detail names another member: ${detail}`)
        }
      }
    }
  },
  async 'createApiKey, updateApiKey: grant only what the caller holds itself'(session) {
    const { id: own, secret: apiKey } = await session.newApiKey({ permissions: ['api_keys:manage', 'encrypt'] })
    const { id } = await session.newApiKey({ permissions: ['decrypt', 'keys:read'] })
    const create = (...permissions: Permission[]) => ({ apiKey, body: { name: session.newName(), permissions } })
    await session.ok('createApiKey', create('encrypt'))
    await session.ok('createApiKey', create('hash', 'wrap')) // `encrypt` includes these
    const { body } = await session.refused('createApiKey', create('encrypt', 'decrypt'), '403 E_MISSING_PERMISSION')
    check(body.detail.startsWith('missing permission: decrypt'), `detail names another permission: ${body.detail}`)
    await session.ok('updateApiKey', { id, apiKey, body: { permissions: ['decrypt'] } }) // it had this permission
    for (const wider of [id, own]) {
      const said = { id: wider, apiKey, body: { permissions: ['decrypt', 'keys:read'] } }
      await session.refused('updateApiKey', said, '403 E_MISSING_PERMISSION')
    }
  },
  async 'revokeApiKey, updateApiKey: end an API key for good: 401 from then on, 409 to a change, 204 once more'(
    session,
  ) {
    const { id, secret: apiKey } = await session.newApiKey({ permissions: ['keys:read'] })
    await session.ok('listKeys', { apiKey })
    for (let round = 0; round < 2; round++) await session.ok('revokeApiKey', { id })
    await session.refused('listKeys', { apiKey }, '401 E_UNAUTHORIZED')
    await session.refused('updateApiKey', { id, body: { name: 'x' } }, '409 E_STATE')
    same((await listed(session, id))?.status, 'revoked', 'status')
  },
  async 'revokeSelf, revokeApiKey: end the calling API key without a permission, and by its id with api_keys:manage only'(
    session,
  ) {
    const { id, secret: apiKey } = await session.newApiKey({ permissions: ['keys:read'], keys: [] })
    await session.refused('revokeApiKey', { id, apiKey }, '403 E_MISSING_PERMISSION')
    await session.ok('revokeSelf', { apiKey })
    await session.refused('revokeSelf', { apiKey }, '401 E_UNAUTHORIZED')
    const { logs } = await session.ok('listAudit', { query: { action: 'api_key.revoke', limit: 1 } })
    same([logs[0]?.actor, logs[0]?.metadata?.api_key_id], [id, id], 'actor and metadata of the newest entry')
  },
  async 'createApiKey: makes one that is answered 401 once it has expired'(session) {
    const { created_at } = await session.newApiKey({ permissions: [] }) // by the server's clock
    const expires_at = new Date(Date.parse(created_at) + SOON_MS).toISOString()
    const { id, secret: apiKey } = await session.newApiKey({ permissions: ['keys:read'], expires_at })
    for (let polls = 0; polls < MAX_POLLS; polls++) {
      const { status, body } = await session.call('listKeys', { apiKey })
      if (status === 401) return same((await listed(session, id))?.status, 'expired', 'status')
      if (status !== 200) throw new Fault(`listKeys: ${refusalOf(status, body)}`)
      await session.wait(POLL_MS)
    }
    throw new Fault('the API key is still taken, seconds after it expired')
  },
  async 'createApiKey: makes one that is answered 403 E_IP_NOT_ALLOWED from addresses that it does not list'(session) {
    const allowed_ips = ['192.0.2.1'] // an address for documentation: no caller has it
    const { secret: apiKey } = await session.newApiKey({ permissions: ['keys:read'], allowed_ips })
    await session.refused('listKeys', { apiKey }, '403 E_IP_NOT_ALLOWED')
  },
  async 'createApiKey, listKeys, createKey, getKey, wrap, hash: limit an API key to its keys and folders; others are as if they were not there'(
    session,
  ) {
    const name = session.newName('/')
    const folder = name.slice(0, name.lastIndexOf('/'))
    const inside = await session.ok('createKey', { body: { name } })
    const byId = await session.newKey()
    const outside = await session.newKey()
    const permissions = ['encrypt', 'keys:read', 'keys:create']
    const { id, secret: apiKey } = await session.newApiKey({ permissions, keys: [`${folder}/*`, byId.id] })
    const { keys } = await session.ok('listKeys', { apiKey })
    same(keys.map((key) => key.id).sort(), [inside.id, byId.id].sort(), 'the keys of the list')
    const dek = randomBase64()
    for (const { id: key_id } of [inside, byId]) await session.ok('hash', { apiKey, body: { key_id, value: 'x' } })
    const nowhere = (await session.refused('getKey', { id: NOWHERE, apiKey }, '404 E_NOT_FOUND')).text
    for (const refused of [
      await session.refused('getKey', { id: outside.id, apiKey }, '404 E_NOT_FOUND'),
      await session.refused('wrap', { id: outside.id, apiKey, body: { dek } }, '404 E_NOT_FOUND'),
      await session.refused('hash', { apiKey, body: { key_id: outside.id, value: 'x' } }, '404 E_NOT_FOUND'),
    ])
      same(refused.text, nowhere, 'the problem document, beside that of an unknown id')
    await session.ok('createKey', { apiKey, body: { name: session.newName('/') } })
    await session.refused('createKey', { apiKey, body: { name: session.newName() } }, '403 E_MISSING_PERMISSION')
    await session.ok('updateApiKey', { id, body: { keys: [] } })
    same((await session.ok('listKeys', { apiKey })).count, 0, 'keys of an API key of no key')
  },
  async 'createApiKey, unwrap, hash: keep an API key to its budgets: 429 E_BUDGET with Retry-After beyond them'(
    session,
  ) {
    const { id } = await session.newKey()
    const { wrapped_key } = await session.ok('wrap', { id, body: { dek: randomBase64() } })
    const budgets = { unwrap: { per_day: 2 }, hash: { per_day: 1 } }
    const made = await session.newApiKey({ permissions: ['unwrap', 'hash'], budgets })
    same(made.budgets, budgets, 'budgets')
    const apiKey = made.secret
    const unwrap = { id, apiKey, body: { wrapped_key } }
    for (let round = 0; round < 2; round++) await session.ok('unwrap', unwrap)
    const { headers, body } = await session.refused('unwrap', unwrap, '429 E_BUDGET')
    check(body.retry_after >= 1 && body.retry_after <= 86_400, `retry_after: ${body.retry_after}`)
    same(headers.get('retry-after'), `${body.retry_after}`, 'Retry-After')
    await session.ok('hash', { apiKey, body: { key_id: id, value: 'x' } })
    await session.refused('hash', { apiKey, body: { key_id: id, value: 'x' } }, '429 E_BUDGET')
    await session.ok('updateApiKey', { id: made.id, body: { budgets: null } })
    await session.ok('unwrap', unwrap)
  },
}

/** Invalid values of the members of an API key. */
const WRONG: Readonly<Record<string, readonly unknown[]>> = {
  name: ['', 'x'.repeat(256), 'a\0b', '\ud800', 7],
  permissions: [['admin'], 'encrypt', [7]],
  expires_at: ['2026-02-30T00:00:00Z', '2026-12-01', '2020-01-01T00:00:00Z', 7],
  allowed_ips: [
    ...['10.0.0.256', '010.0.0.1', '10.0.0.0/33', 'fe80::1%eth0', 'localhost'].map((address) => [address]),
    ['10.0.0.1', '10.0.0.1/'],
    '10.0.0.1',
  ],
  keys: [
    ...['customers', '*', '', 'customers\0/*', '00000000-0000-4000-8000-00000000000g', 7].map((item) => [item]),
    'customers/*',
    Array.from({ length: 65 }, (_, at) => `${at}/*`),
    Array.from({ length: 20 }, (_, at) => `${at}${'x'.repeat(200)}/*`),
  ],
  budgets: [{}, { unwrap: { per_day: 0 } }, { hash: { per_day: 1 }, when_over: 'explode' }],
}
