/** Keys: their names, pages, versions, destruction and export. */
import type { wire } from '@eaas/protocol'
import { openExport } from '@eaas/sdk/offline'
import { type Cases, check, each, NOWHERE, randomBase64, same } from './case.js'
import { awaitDestruction } from './ready-calls.js'

export const KEY_CASES: Cases = {
  async 'createKey, getKey, listKeys: answer one key alike, and its id and version under both names'(session) {
    const name = `${session.newName()} — 客户 🗝️`
    const created = await session.ok('createKey', { body: { name } })
    const { versions, ...got } = await session.ok('getKey', { id: created.id })
    const { updated_at: _, blind_hash_public_key: __, ...alike } = got
    same(alike, created, 'getKey')
    const states = versions.map(({ version, status }) => `${version} ${status}`)
    same(states, ['1 active'], 'versions')
    same((await session.ok('listKeys', { query: { name } })).keys, [created], 'listKeys by name')
    const { id, current_version, ...rest } = created
    same([rest.key_id, rest.key_version], [id, current_version], 'key_id and key_version')
    same([rest.name, rest.status, rest.rotation], [name, 'active', null], 'name, status and rotation')
  },
  async 'createKey: refuses a name that a key has or had with 409 E_NAME_TAKEN, compared exactly'(session) {
    const { id, name } = await session.newKey()
    await session.refused('createKey', { body: { name } }, '409 E_NAME_TAKEN')
    await session.ok('createKey', { body: { name: name.toUpperCase() } })
    await session.ok('createKey', { body: { name: `${name} ` } })
    await awaitDestruction(session, id, name)
    await session.refused('createKey', { body: { name } }, '409 E_NAME_TAKEN')
  },
  async 'createKeys: answers each key in order; a taken name fails alone, and an invalid one the whole call'(session) {
    const { name: taken } = await session.newKey()
    const [a, b] = [session.newName(), session.newName()]
    const { results } = await session.ok('createKeys', { body: { keys: [a, taken, b, a].map((name) => ({ name })) } })
    same(each(results, 'status'), [201, 409, 201, 409], 'the statuses')
    same((results[2]?.body as wire.Key | undefined)?.name, b, 'the name of the third')
    const keys = [{ name: session.newName() }, { name: '' }]
    await session.refused('createKeys', { body: { keys } }, '400 E_VALIDATION')
    same((await session.ok('listKeys', { query: { name: keys[0]?.name ?? '' } })).count, 0, 'keys after the refusal')
  },
  async 'listKeys: answers pages of one order, and filters by status'(session) {
    for (let made = 0; made < 3; made++) await session.newKey()
    const { keys, count } = await session.ok('listKeys')
    same(count, keys.length, 'count')
    for (const offset of [0, count - 3, count - 2, count]) {
      const page = await session.ok('listKeys', { query: { limit: 2, offset } })
      same(each(page.keys, 'id'), each(keys.slice(offset, offset + 2), 'id'), `from ${offset} on`)
    }
    const active = await session.ok('listKeys', { query: { status: 'active' } })
    const expected = keys.filter(({ status }) => status === 'active')
    same(active.keys, expected, 'the active keys')
  },
  async 'rotateKey: makes a version that wraps from now on, and retires the last one'(session) {
    const { id } = await session.newKey()
    const { current_version, key_version } = await session.ok('rotateKey', { id })
    same([current_version, key_version], [2, 2], 'current_version and key_version')
    const { versions } = await session.ok('getKey', { id })
    const states = versions.map(({ version, status }) => `${version} ${status}`)
    same(states, ['1 retired', '2 active'], 'versions')
  },
  async 'setRotation: sets the days between rotations, tells the next one, and removes the policy by null'(session) {
    const { id, created_at } = await session.newKey()
    const { rotation } = await session.ok('setRotation', { id, body: { interval_days: 3_650 } })
    same(rotation?.interval_days, 3_650, 'interval_days')
    check(`${rotation?.next_rotation_at}` > created_at, 'next_rotation_at is not in the future')
    same((await session.ok('getKey', { id })).rotation, rotation, 'rotation of getKey')
    same((await session.ok('setRotation', { id, body: { interval_days: null } })).rotation, null, 'rotation')
  },
  async 'destroyKey, cancelDestruction: need the name of the key, wait until destroy_at, and lead back to disabled'(
    session,
  ) {
    const { id, name } = await session.newKey()
    await session.refused('destroyKey', { id, body: { confirm: name } }, '409 E_STATE')
    await session.ok('disableKey', { id })
    await session.refused('destroyKey', { id, body: { confirm: name.toUpperCase() } }, '400 E_VALIDATION')
    const { status, destroy_at } = await session.ok('destroyKey', { id, body: { confirm: name } })
    const key = await session.ok('getKey', { id })
    same(key.status, status, 'the state of getKey')
    if (status === 'destroyed') return same(each(key.versions, 'status'), ['destroyed'], 'versions')
    check(`${destroy_at}` > key.created_at, 'destroy_at is not in the future')
    const cancelled = await session.ok('cancelDestruction', { id })
    same([cancelled.status, 'destroy_at' in cancelled], ['disabled', false], 'status and destroy_at')
    await session.ok('enableKey', { id })
  },
  async 'exportKey: answers each version’s key and the hash key, which open offline what they wrapped (wrapped-key.md 2)'(
    session,
  ) {
    const { id, name } = await session.newKey()
    const dek = randomBase64()
    const { hash } = await session.ok('hash', { body: { key_id: id, value: 'ada é' } })
    const old = await session.ok('wrap', { id, body: { dek } })
    await session.ok('rotateKey', { id })
    const recent = await session.ok('wrap', { id, body: { dek } })
    const bound = await session.ok('wrap', { id, body: { dek, purpose: 'index', context: { row: '7' } } })
    const exported = await session.ok('exportKey', { id })
    same([exported.key_id, exported.name], [id, name], 'key_id and name')
    const states = exported.versions.map(({ version, status }) => `${version} ${status}`)
    same(states, ['1 retired', '2 active'], 'versions')
    const offline = openExport(exported)
    const opened = [
      await offline.unwrap(old.wrapped_key),
      await offline.unwrap(recent.wrapped_key),
      await offline.unwrap(bound.wrapped_key, { purpose: 'index', context: { row: '7' } }),
    ].map((bytes) => Buffer.from(bytes).toString('base64') === dek)
    same(opened, [true, true, true], 'whether the export opens the DEKs of version 1, version 2 and format 2')
    same(await offline.hash('ada é'), hash, 'the hash by the exported hash key')
    offline.close()
  },
  async 'updateKey, unwrap, rewrap: open nothing older than min_unwrap_version, which may be lowered again'(session) {
    const { id } = await session.newKey()
    const { wrapped_key } = await session.ok('wrap', { id, body: { dek: randomBase64() } })
    await session.refused('updateKey', { id, body: { min_unwrap_version: 2 } }, '400 E_VALIDATION')
    await session.ok('rotateKey', { id })
    const rewrapped = await session.ok('rewrap', { id, body: { wrapped_key } })
    same((await session.ok('updateKey', { id, body: { min_unwrap_version: 2 } })).min_unwrap_version, 2, 'the member')
    for (const operation of ['unwrap', 'rewrap'] as const)
      await session.refused(operation, { id, body: { wrapped_key } }, '409 E_VERSION_TOO_OLD')
    await session.ok('unwrap', { id, body: { wrapped_key: rewrapped.wrapped_key } })
    await session.ok('updateKey', { id, body: { min_unwrap_version: 1 } })
    await session.ok('unwrap', { id, body: { wrapped_key } })
  },
  async 'destroyVersion: refuses a version that still opens with 409, one that is not there with 404, and needs the name of the key'(
    session,
  ) {
    const { id, name } = await session.newKey()
    await session.ok('rotateKey', { id })
    const body = { confirm: name }
    for (const version of [1, 2]) await session.refused('destroyVersion', { id, version, body }, '409 E_STATE')
    await session.refused('destroyVersion', { id, version: 3, body }, '404 E_NOT_FOUND')
    await session.refused('destroyVersion', { id: NOWHERE, version: 1, body }, '404 E_NOT_FOUND')
    await session.refused('destroyVersion', { id, version: 1, body: { confirm: id } }, '400 E_VALIDATION')
  },
  async 'disableKey, enableKey: change nothing a second time, and write no entry then'(session) {
    const { id } = await session.newKey()
    for (const operation of ['disableKey', 'disableKey', 'enableKey', 'enableKey'] as const)
      await session.ok(operation, { id })
    const { logs } = await session.ok('listAudit', { query: { key_id: id, order: 'asc' } })
    same(each(logs, 'action'), ['key.create', 'key.disable', 'key.enable'], 'the entries')
  },
}
