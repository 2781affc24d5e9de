import { expect } from 'vitest'
import { type ContractCase, refusal } from './contract-case.js'
import { DAY_MS, MINUTE_MS } from './scene.js'

export const KEY_CASES: ContractCase[] = [
  {
    rule: 'are created, got and listed, with all their fields',
    async run({ connect }) {
      const { keys } = connect()
      const created = await keys.create({ name: 'clients — 客户 🗝️' })
      expect(created).toMatchObject({ status: 'active', current_version: 1, rotation: null })
      expect(await keys.get(created.id)).toMatchObject({ ...created, versions: [{ version: 1, status: 'active' }] })
      await keys.create({ name: 'second' })
      const third = await keys.create({ name: 'x'.repeat(255) })
      await keys.disable(third.id)
      const names = async (options?: Parameters<typeof keys.list>[0]) => (await keys.list(options)).keys.length
      expect(await names()).toBe(3)
      expect(await names({ status: 'active' })).toBe(2)
      expect(await names({ status: 'destroyed' })).toBe(0)
      expect(await names({ name: 'second' })).toBe(1)
      expect(await names({ limit: 2 })).toBe(2)
      expect(await names({ limit: 2, offset: 2 })).toBe(1)
      expect(await names({ offset: 7 })).toBe(0)
    },
  },
  {
    rule: 'are created many at once: a name that is taken fails alone, and so does the second of two in one call',
    async run({ connect, entries }) {
      const { keys } = connect()
      await keys.create({ name: 'taken' })
      const names = ['a', 'taken', 'b', 'a', '客户']
      const { ok, failed } = await keys.createMany(names.map((name) => ({ name })))
      expect(ok.map(({ name, status, current_version }) => [name, status, current_version])).toEqual(
        ['a', 'b', '客户'].map((name) => [name, 'active', 1]),
      )
      expect(failed.map(({ index, error }) => [index, error.code, 'problem' in error && error.problem])).toEqual([
        [1, 'E_API', 'E_NAME_TAKEN'],
        [3, 'E_API', 'E_NAME_TAKEN'],
      ])
      expect((await keys.createMany([{ name: 'a' }])).ok).toEqual([])
      // One by one: keys of one moment are listed in the order of their random ids.
      for (const name of ['a', 'b', '客户']) expect((await keys.list({ name })).count).toBe(1)
      expect((await entries('key.create')).length).toBe(4)
    },
  },
  {
    rule: 'are ensured: created once, and found from then on',
    async run({ connect }) {
      const { keys } = connect()
      const { id } = await keys.ensure({ name: 'users' })
      expect((await keys.ensure({ name: 'users' })).id).toBe(id)
      expect((await keys.list()).count).toBe(1)
    },
  },
  {
    rule: 'are not ensured unless they are active: what to do is said',
    async run({ connect }) {
      const { keys } = connect()
      const { id } = await keys.ensure({ name: 'users' })
      await keys.disable(id)
      const refused = (status: string, hint: string) =>
        expect(keys.ensure({ name: 'users' })).rejects.toMatchObject({
          code: 'E_API',
          httpStatus: 409,
          problem: 'E_STATE',
          detail: `the key of this name, ${id}, must be active, and is ${status}`,
          hint: expect.stringContaining(hint),
        })
      await refused('disabled', 'keys.enable()')
      await keys.destroy(id, 'users')
      await refused('pending_destruction', 'keys.cancelDestruction()')
      await keys.cancelDestruction(id)
      await keys.enable(id)
      expect((await keys.ensure({ name: 'users' })).id).toBe(id)
    },
  },
  {
    rule: 'rotate: a new version seals, the old ones open',
    async run({ connect, pass }) {
      const { keys } = connect()
      const { id } = await keys.create({ name: 'users' })
      await pass(1_000)
      expect((await keys.rotate(id)).current_version).toBe(2)
      await pass(1_000)
      expect((await keys.rotate(id)).key_version).toBe(3)
      const { versions } = await keys.get(id)
      expect(versions.map(({ status }) => status)).toEqual(['retired', 'retired', 'active'])
    },
  },
  {
    rule: 'get 100 versions as fast as a caller likes, and from then on 60 in an hour',
    async run({ connect, pass }) {
      const { keys } = connect()
      const [{ id }, other] = [await keys.create({ name: 'users' }), await keys.create({ name: 'other' })]
      const rotateTo = async (version: number, from: number) => {
        for (let at = from; at < version; at++) await keys.rotate(id)
        expect((await keys.get(id)).current_version).toBe(version)
      }
      await rotateTo(50, 1)
      await pass(30 * MINUTE_MS)
      await rotateTo(100, 50)
      expect(await refusal(keys.rotate(id))).toBe('409 E_LIMIT') // the last 60 are of the last hour
      expect((await keys.rotate(other.id)).current_version).toBe(2)
      await pass(30 * MINUTE_MS)
      await rotateTo(110, 100)
      expect(await refusal(keys.rotate(id))).toBe('409 E_LIMIT')
    },
  },
  {
    rule: 'rotate by policy, once it is due, and not while they are disabled',
    async run({ connect, pass }) {
      const { keys } = connect()
      const { id } = await keys.create({ name: 'users' })
      expect((await keys.setRotation(id, 3_650)).rotation?.interval_days).toBe(3_650)
      await keys.setRotation(id, 2)
      await pass(2 * DAY_MS - MINUTE_MS)
      expect((await keys.get(id)).current_version).toBe(1)
      await pass(MINUTE_MS)
      expect((await keys.get(id)).current_version).toBe(2)
      await pass(10 * DAY_MS)
      expect((await keys.get(id)).current_version).toBe(3)
      await keys.disable(id)
      await pass(10 * DAY_MS)
      expect((await keys.get(id)).current_version).toBe(3)
      await keys.enable(id)
      await pass(0)
      expect((await keys.get(id)).current_version).toBe(4)
      expect((await keys.setRotation(id, null)).rotation).toBeNull()
      await keys.setRotation(id, null)
      await pass(10 * DAY_MS)
      expect((await keys.get(id)).current_version).toBe(4)
    },
  },
  {
    rule: 'keep their policy when they are rotated by hand: the interval begins anew',
    async run({ connect, pass, now }) {
      const { keys } = connect()
      const { id } = await keys.create({ name: 'users' })
      await keys.setRotation(id, 2)
      await pass(DAY_MS)
      const { rotation } = await keys.rotate(id)
      expect(rotation?.next_rotation_at).toBe(new Date(now() + 2 * DAY_MS).toISOString())
    },
  },
  {
    rule: 'that are disabled meanwhile seal on for who holds a DEK, until its age, and open',
    async run({ connect, passForClients, entries }) {
      const owner = connect()
      const { id: keyId } = await owner.keys.create({ name: 'users' })
      const [writer, reader] = [connect(), connect()]
      const envelope = await writer.encrypt('before', { keyId })
      expect(await reader.decryptText(envelope)).toBe('before')
      await owner.keys.disable(keyId)
      passForClients(53 * MINUTE_MS) // at 54 the next one would be made ready
      expect(await reader.decryptText(await writer.encrypt('after', { keyId }))).toBe('after')
      passForClients(7 * MINUTE_MS)
      expect(await refusal(writer.encrypt('x', { keyId }))).toBe('409 E_STATE')
      expect(await reader.decryptText(envelope)).toBe('before')
      expect((await entries('key.unwrap')).length).toBe(3) // one for each 5 minutes with a read in them
    },
  },
  {
    rule: 'that are disabled open what they sealed, and seal nothing',
    options: { serverMode: true },
    async run({ connect }) {
      const eaas = connect()
      const { id: keyId } = await eaas.keys.create({ name: 'users' })
      const envelope = await eaas.encrypt('sealed before', { keyId })
      const bundle = await eaas.server.encrypt('sealed before', { keyId })
      await eaas.keys.disable(keyId)
      await eaas.keys.disable(keyId)
      const other = connect()
      expect(await refusal(other.encrypt('x', { keyId }))).toBe('409 E_STATE')
      expect(await refusal(other.hash('x', { keyId }))).toBe('409 E_STATE')
      expect(await refusal(other.rewrap(envelope))).toBe('409 E_STATE')
      expect(await refusal(other.server.encrypt('x', { keyId }))).toBe('409 E_STATE')
      expect(await refusal(other.keys.rotate(keyId))).toBe('409 E_STATE')
      expect(await refusal(other.keys.cancelDestruction(keyId))).toBe('409 E_STATE')
      expect(await other.decryptText(envelope)).toBe('sealed before')
      expect(await other.server.decryptText(bundle)).toBe('sealed before')
      await other.keys.setRotation(keyId, 30)
      await other.keys.export(keyId)
      expect((await other.keys.enable(keyId)).status).toBe('active')
      await other.keys.enable(keyId)
      await other.encrypt('x', { keyId })
    },
  },
  {
    rule: 'open from a version on: what older ones wrapped is refused until it is lowered again',
    options: { serverMode: true },
    async run({ connect, entries }) {
      const eaas = connect()
      const { keys } = eaas
      const { id: keyId } = await keys.create({ name: 'users' })
      const envelope = await eaas.encrypt('of version 1', { keyId })
      const bundle = await eaas.server.encrypt('of version 1', { keyId })
      expect(await refusal(keys.update(keyId, { min_unwrap_version: 2 }))).toBe('400 E_VALIDATION')
      expect((await keys.update(keyId, { min_unwrap_version: 1 })).min_unwrap_version).toBe(1)
      await keys.rotate(keyId)
      const rewrapped = await eaas.rewrap(envelope)
      expect((await keys.update(keyId, { min_unwrap_version: 2 })).min_unwrap_version).toBe(2)
      expect((await keys.get(keyId)).min_unwrap_version).toBe(2)
      expect((await keys.list()).keys.map((key) => key.min_unwrap_version)).toEqual([2])
      expect(await refusal(connect().decrypt(envelope))).toBe('409 E_VERSION_TOO_OLD')
      expect(await refusal(connect().rewrap(envelope))).toBe('409 E_VERSION_TOO_OLD')
      expect(await refusal(connect().server.decrypt(bundle))).toBe('409 E_VERSION_TOO_OLD')
      expect(await connect().decryptText(rewrapped)).toBe('of version 1')
      await keys.disable(keyId)
      await keys.update(keyId, { min_unwrap_version: 1 })
      expect(await connect().decryptText(envelope)).toBe('of version 1')
      expect(await connect().server.decryptText(bundle)).toBe('of version 1')
      await keys.destroy(keyId, 'users')
      expect(await refusal(keys.update(keyId, { min_unwrap_version: 2 }))).toBe('409 E_STATE')
      const updates = await entries('key.update')
      expect(updates.map(({ metadata, key_version }) => ({ ...metadata, key_version }))).toMatchObject([
        { min_unwrap_version: 2, min_unwrap_version_before: 1, status: 'active', key_version: 2 },
        { min_unwrap_version: 1, min_unwrap_version_before: 2, status: 'disabled', key_version: 2 },
      ])
    },
  },
  {
    rule: 'lose a version for good once it was closed for the waiting period, the oldest first',
    options: { serverMode: true },
    async run({ connect, pass }) {
      const eaas = connect()
      const { keys } = eaas
      const { id: keyId } = await keys.create({ name: 'users' })
      const envelope = await eaas.encrypt('of version 1', { keyId })
      const bundle = await eaas.server.encrypt('of version 1', { keyId })
      await keys.rotate(keyId)
      await keys.rotate(keyId)
      const kept = await eaas.rewrap(envelope)
      expect(await refusal(keys.destroyVersion(keyId, 1, 'users'))).toBe('409 E_STATE')
      await keys.update(keyId, { min_unwrap_version: 2 })
      await pass(7 * DAY_MS)
      await keys.update(keyId, { min_unwrap_version: 3 }) // which begins the waiting period again, for both
      await pass(7 * DAY_MS - MINUTE_MS)
      expect(await refusal(keys.destroyVersion(keyId, 1, 'users'))).toBe('409 E_STATE')
      await pass(MINUTE_MS)
      expect(await refusal(keys.destroyVersion(keyId, 1, 'Users'))).toBe('400 E_VALIDATION')
      expect(await refusal(keys.destroyVersion(keyId, 2, 'users'))).toBe('409 E_STATE')
      expect(await refusal(keys.destroyVersion(keyId, 3, 'users'))).toBe('409 E_STATE')
      expect(await refusal(keys.destroyVersion(keyId, 4, 'users'))).toBe('404 E_NOT_FOUND')
      expect((await keys.destroyVersion(keyId, 1, 'users')).status).toBe('active')
      await keys.destroyVersion(keyId, 1, 'users') // changes nothing
      expect(await refusal(connect().decrypt(envelope))).toBe('409 E_VERSION_DESTROYED')
      expect(await refusal(connect().rewrap(envelope))).toBe('409 E_VERSION_DESTROYED')
      expect(await refusal(connect().server.decrypt(bundle))).toBe('409 E_VERSION_DESTROYED')
      expect(await refusal(keys.update(keyId, { min_unwrap_version: 1 }))).toBe('400 E_VALIDATION')
      await keys.disable(keyId)
      await keys.destroyVersion(keyId, 2, 'users')
      expect(await connect().decryptText(kept)).toBe('of version 1')
      expect((await keys.get(keyId)).versions.map(({ status }) => status)).toEqual(['destroyed', 'destroyed', 'active'])
      expect((await keys.export(keyId)).versions.map(({ version }) => version)).toEqual([3])
      await keys.destroy(keyId, 'users')
      expect(await refusal(keys.destroyVersion(keyId, 1, 'users'))).toBe('409 E_STATE')
      await pass(7 * DAY_MS)
      expect(await refusal(keys.destroyVersion(keyId, 1, 'users'))).toBe('409 E_KEY_DESTROYED')
    },
  },
  {
    rule: 'tell what each version wrapped, and on which day it opened something last',
    options: { serverMode: true },
    async run({ connect, pass }) {
      const eaas = connect()
      const { id: keyId } = await eaas.keys.create({ name: 'users' })
      const envelope = await eaas.encrypt('x', { keyId })
      const bundle = await eaas.server.encrypt('y', { keyId })
      await eaas.keys.rotate(keyId)
      await eaas.rewrap(envelope)
      const uses = async () => (await eaas.keys.get(keyId)).versions.map((one) => [one.wraps, one.last_unwrapped_at])
      expect(await uses()).toEqual([
        [2, undefined],
        [1, undefined],
      ])
      await connect().decrypt(envelope)
      const [[, opened] = []] = await uses()
      expect(opened).toMatch(/T00:00:00\.000Z$/)
      await pass(DAY_MS)
      await eaas.server.decrypt(bundle)
      const [[, later] = []] = await uses()
      expect(Date.parse(`${later}`) - Date.parse(`${opened}`)).toBe(DAY_MS)
    },
  },
  {
    rule: 'are destroyed after a waiting period, in which it can be cancelled, and for good then',
    options: { serverMode: true },
    async run({ connect, pass }) {
      const eaas = connect()
      const { keys } = eaas
      const { id: keyId } = await keys.create({ name: 'users' })
      const envelope = await eaas.encrypt('gone soon', { keyId })
      const bundle = await eaas.server.encrypt('gone soon', { keyId })
      expect(await refusal(keys.destroy(keyId, 'users'))).toBe('409 E_STATE')
      await keys.setRotation(keyId, 1)
      await keys.disable(keyId)
      expect(await refusal(keys.destroy(keyId, 'Users'))).toBe('400 E_VALIDATION')
      expect((await keys.destroy(keyId, 'users')).status).toBe('pending_destruction')
      await keys.destroy(keyId, 'users')
      expect((await keys.cancelDestruction(keyId)).status).toBe('disabled')
      await keys.destroy(keyId, 'users')
      await keys.disable(keyId)
      expect((await keys.get(keyId)).status).toBe('pending_destruction')
      const refused = async (problem: string) => {
        const other = connect()
        for (const call of [
          () => other.encrypt('x', { keyId }),
          () => other.hash('x', { keyId }),
          () => other.decrypt(envelope),
          () => other.rewrap(envelope),
          () => other.server.encrypt('x', { keyId }),
          () => other.server.decrypt(bundle),
          () => other.keys.rotate(keyId),
          () => other.keys.setRotation(keyId, 1),
          () => other.keys.enable(keyId),
          () => other.keys.export(keyId),
        ]) {
          expect(await refusal(call())).toBe(`409 ${problem}`)
        }
      }
      await refused('E_STATE')
      await pass(7 * DAY_MS - MINUTE_MS)
      expect((await keys.get(keyId)).status).toBe('pending_destruction')
      await pass(MINUTE_MS)
      expect(await keys.get(keyId)).toMatchObject({ status: 'destroyed', versions: [{ status: 'destroyed' }] })
      await refused('E_KEY_DESTROYED')
      expect(await refusal(keys.disable(keyId))).toBe('409 E_KEY_DESTROYED')
      expect(await refusal(keys.cancelDestruction(keyId))).toBe('409 E_KEY_DESTROYED')
      expect((await keys.destroy(keyId, 'users')).status).toBe('destroyed')
      expect(await refusal(keys.create({ name: 'users' }))).toBe('409 E_NAME_TAKEN')
      expect((await keys.list()).count).toBe(1)
    },
  },
  {
    rule: 'are destroyed at once where there is no waiting period',
    options: { destroyWindowDays: 0 },
    async run({ connect }) {
      const { keys } = connect()
      const { id } = await keys.create({ name: 'users' })
      await keys.rotate(id)
      await keys.disable(id)
      expect((await keys.destroy(id, 'users')).status).toBe('destroyed')
      await keys.get(id)
    },
  },
]
