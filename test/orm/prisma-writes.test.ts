// The rows that a write of Prisma finds, nests or makes: each value is sealed to its own row, or the write is refused and nothing stored.
import { randomUUID } from 'node:crypto'
import { beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { encrypted } from '../../packages/prisma/src/index.js'
import { bytes, json, text } from '../../packages/sdk/src/index.js'
import { ID, openScene, post, SECRET, user } from './prisma-scene.js'

const { postgres, sent, assertNothingSent, eaas, keyId, models, createPrisma, client, db } = await openScene()

describe('Prisma', () => {
  it('changes nested rows, each under its own id, and no others', async () => {
    const [mine, other] = [post(), post()]
    const id = randomUUID()
    await db.user.update({ where: { id: ID }, data: { posts: { create: { ...mine, likes: 7 } } } })
    await db.user.create({ data: { ...user(id), posts: { create: other } } })
    const titles = async () => {
      const rows = await db.post.findMany({ orderBy: { id: 'asc' } })
      return Object.fromEntries(rows.map((row) => [row.id, row.title]))
    }
    const update = (posts: object) => db.user.update({ where: { id: ID }, data: { posts } as never })
    const few = { where: { likes: { lt: 5 } }, data: { title: 'few' } }
    const many = { where: { likes: 7 }, data: { title: 'many' } }
    await update({ updateMany: few })
    await update({ updateMany: [many] })
    expect(await titles()).toEqual({ [ID]: 'few', [mine.id]: 'many', [other.id]: SECRET })
    // Its rows would be found before the other writes, and Prisma finds them after these.
    for (const others of [
      { updateMany: [few, many] },
      { updateMany: few, create: post() },
      { updateMany: few, connect: { id: ID } },
    ])
      await expect(update(others)).rejects.toThrow('updateMany beside other writes of the relation posts')
    await update({ updateMany: { where: {}, data: { title: 'all' } } })
    expect(await titles()).toMatchObject({ [ID]: 'all', [other.id]: SECRET })
    await update({ updateMany: { where: { likes: 99 }, data: { title: 'none' } } })
    await db.post.update({ where: { id: other.id }, data: { user: { update: { data: { nick: 'nested' } } } } })
    await db.post.update({ where: { id: ID }, data: { likes: 9, user: { update: { nick: 'whole', city: 'Rome' } } } })
    expect((await db.user.findMany({ orderBy: { city: 'asc' } })).map(({ nick }) => nick)).toEqual(['nested', 'whole'])
    expect(await titles()).toMatchObject({ [other.id]: SECRET })
    await db.$transaction(async (tx) => {
      await tx.user.update({ where: { id }, data: { posts: { updateMany: { where: {}, data: { title: 'inner' } } } } })
    })
    expect(await titles()).toMatchObject({ [other.id]: 'inner' })
    const stray = { update: { where: { id: other.id, likes: 3 }, data: { title: 'stray' } } }
    await expect(update(stray)).rejects.toMatchObject({ code: 'P2025' })
    const list = () =>
      db.user.update({ where: { id: ID }, data: { posts: { updateMany: { where: {}, data: { title: 'x' } } } } })
    await expect(db.$transaction([list()])).rejects.toThrow('in a list of operations, an update of User')
  })
  it('changes many rows, counts them, and no more than its limit', async () => {
    await db.user.create({ data: { ...user(), nick: 'bob' } })
    expect(await db.user.updateMany({ data: { nick: 'all' }, limit: 1 })).toEqual({ count: 1 })
    expect(await db.user.updateMany({ data: { nick: 'all' } })).toEqual({ count: 2 })
    expect(await db.user.updateMany({ where: { city: 'x' }, data: { nick: 'all' } })).toEqual({ count: 0 })
    expect((await db.user.findMany()).map(({ nick }) => nick)).toEqual(['all', 'all'])
  })
  it('leaves a limit below zero to Prisma, which refuses it', async () => {
    const args = { data: { nick: 'all' }, limit: -1 }
    await expect(db.user.updateMany(args)).rejects.toMatchObject({ code: 'P2019' })
    await expect(db.user.updateManyAndReturn(args)).rejects.toMatchObject({ code: 'P2019' })
    expect(await db.user.findMany()).toMatchObject([{ nick: 'ada' }])
  })
  const boundToCity = () =>
    eaas.model({ name: 'users', keyId, format: 'text', bind: ['city'], fields: { nick: text().nullable() } })
  it('changes each row by itself where several share what their values are bound to', async () => {
    for (let n = 0; n < 2; n++) await db.user.create({ data: user() })
    const shared = client.$extends(encrypted({ User: boundToCity() })).user
    await postgres.exec('update users set nick = null')
    expect(await shared.updateMany({ data: { nick: 'one' }, limit: 1 })).toEqual({ count: 1 })
    expect(await shared.count({ where: { nick: null } })).toBe(2)
    expect(await shared.updateMany({ data: { nick: 'all' } })).toEqual({ count: 3 })
    const returned = await shared.updateManyAndReturn({ data: { nick: 'again' } })
    expect([returned.length, new Set(returned.map(({ id }) => id)).size]).toEqual([3, 3])
    expect((await shared.findMany()).map(({ nick }) => nick)).toEqual(['again', 'again', 'again'])
  })
  it('refuses to change more rows than it read, where the schema does not say what identifies one', async () => {
    await db.user.create({ data: user() })
    await postgres.exec('update users set nick = null')
    const other = createPrisma()
    const config = (other as unknown as { _engineConfig: { inlineSchema: string } })._engineConfig
    config.inlineSchema = config.inlineSchema.replaceAll('@id', '')
    const shared = other.$extends(encrypted({ User: boundToCity() })).user
    await expect(shared.updateMany({ data: { nick: SECRET } })).rejects.toThrow('users: 2 rows, and not 1, have the')
    expect(await shared.count({ where: { nick: null } })).toBe(2)
  })
  it('seals each of many rows under its own key, also where nothing is bound', async () => {
    const keys = [keyId, (await eaas.keys.create({ name: 'other' })).id]
    const fields = { name: text() }
    const model = eaas.model({ name: 'people', keyId: (row) => row.key_id, bind: false, format: 'text', fields })
    const people = client.$extends(encrypted({ Person: model })).person
    await people.createMany({ data: keys.map((key_id) => ({ id: randomUUID(), key_id, name: 'x', city: 'y' })) })
    expect(await people.updateMany({ data: { name: 'both' } })).toEqual({ count: 2 })
    expect((await people.findMany()).map(({ name }) => name)).toEqual(['both', 'both'])
  })
  it('fails as Prisma does where no row is found', async () => {
    const where = { email_index: 'x' }
    await expect(db.user.update({ where, data: { nick: 'new' } })).rejects.toMatchObject({ code: 'P2025' })
  })
  it('refuses, in a list of operations, an update whose row must be read before', async () => {
    const update = () => db.user.updateMany({ where: { city: 'London' }, data: { nick: SECRET } })
    await expect(db.$transaction([update()])).rejects.toThrow('in a list of operations, an update of User')
    await db.$transaction((tx) => tx.user.updateMany({ where: { city: 'London' }, data: { nick: 'ben' } }))
    expect((await db.user.findFirst())?.nick).toBe('ben')
  })
  it('seals to an id as the database spells it', async () => {
    const id = randomUUID()
    const other = id.toUpperCase()
    await db.user.create({
      data: { ...user(other), nick: 'first', posts: { create: { ...post(), id: `{${other}}` } } },
    })
    const nick = async () => (await db.user.findUnique({ where: { id } }))?.nick
    expect(await nick()).toBe('first')
    await db.user.update({ where: { id: other }, data: { nick: 'second' } })
    expect(await nick()).toBe('second')
    await db.user.updateMany({ where: { id: { equals: id.replaceAll('-', '') } }, data: { nick: 'third', id: other } })
    expect(await nick()).toBe('third')
    await db.user.upsert({ where: { id: other }, create: user(other), update: { nick: 'fourth' } })
    expect(await nick()).toBe('fourth')
    const posts = { update: { where: { id: other }, data: { title: 'Second' } } }
    await db.user.update({ where: { id }, data: { posts } })
    expect(await db.post.findUnique({ where: { id } })).toMatchObject({ title: 'Second' })
  })
  describe('a nested update of a model that has a field `data`', () => {
    const other = randomUUID()
    const start = { tree: 'first', amount: { n: 1 } }

    beforeAll(() => postgres.exec('create table _all ("A" uuid references places, "B" uuid references samples)'))
    beforeEach(async () => {
      await postgres.exec('truncate places, samples, _all')
      await of({}).place.create({
        data: { id: ID, sample: { create: start }, samples: { create: { id: other, ...start } } },
      })
      sent.length = 0
    })
    /** `tree` is encrypted, and what else is given. */
    const of = (more: object) => {
      const fields = { tree: text(), ...more }
      return client.$extends(encrypted({ Sample: eaas.model({ name: 'samples', keyId, bind: ['id'], fields }) }))
    }
    const update = (data: object, more: object = {}) => of(more).place.update({ where: { id: ID }, data })
    const read = (id: string, more: object = {}) => of(more).sample.findUnique({ where: { id } })
    const tree = SECRET

    it.each<[string, string, object]>([
      ['in a list', other, { samples: { update: { where: { id: other }, data: { tree } } } }],
      ['in several', other, { samples: { update: [{ where: { id: other }, data: { tree } }] } }],
      ['by another field', other, { samples: { updateMany: { where: {}, data: { tree } } } }],
      ['of one row, by a condition', ID, { sample: { update: { where: {}, data: { tree } } } }],
      ['of one row, by its changes', ID, { sample: { update: { tree } } }],
    ])('is sealed %s', async (_, id, data) => {
      await update(data)
      expect(sent.join()).not.toContain(SECRET)
      expect(await read(id)).toMatchObject({ ...start, tree, data: null })
    })
    it('sets that field beside others, and by itself where it is no object', async () => {
      await update({ sample: { update: { tree, data: { tree: 'plain' } } } })
      expect(await read(ID)).toMatchObject({ tree, data: { tree: 'plain' } })
      await update({ sample: { update: { data: 'alone' } } })
      await update({ samples: { update: { where: { id: other }, data: { data: { n: 2 } } } } })
      expect([await read(ID), await read(other)]).toMatchObject([{ data: 'alone' }, { data: { n: 2 } }])
      expect(sent.join()).not.toContain(SECRET)
    })
    it('is refused where its changes, or the value of that field, could be meant', async () => {
      for (const changes of [{ data: { tree } }, { where: undefined, data: { tree } }, { data: { tree }, size: 1 }]) {
        await expect(update({ sample: { update: changes } })).rejects.toMatchObject({
          code: 'E_INVALID_INPUT',
          message: expect.stringContaining('an update of the relation sample that could be changes or { where, data }'),
        })
      }
      assertNothingSent()
    })
    it.each([
      ['bytes', bytes(), new Uint8Array([7])],
      ['JSON', json(), { tree: SECRET }],
    ])('is sealed with the field `data` of %s too', async (_, data, value) => {
      const more = { data: data.nullable() }
      await update({ samples: { update: { where: { id: other }, data: { data: value, tree } } } }, more)
      await update({ sample: { update: { data: value, tree } } }, more)
      expect([await read(ID, more), await read(other, more)]).toMatchObject([
        { data: value, tree },
        { data: value, tree },
      ])
      expect(sent.join()).not.toContain(SECRET)
    })
  })
  describe('a row that is bound to the id of another', () => {
    const bound = () => {
      const bind = ['id', 'user_id']
      const model = eaas.model({ name: 'posts', keyId, bind, format: 'text', fields: { title: text() } })
      return client.$extends(encrypted({ Post: model }))
    }
    const plain = (id: string = randomUUID()) => ({ ...user(id), email_index: id })
    const titles = async (user_id: string) => {
      const found = await bound().post.findMany({ where: { user_id } })
      return found.map(({ title }) => title)
    }

    it('is sealed to it where it is nested', async () => {
      const id = randomUUID()
      const posts = { create: [post(), post()] }
      await bound().user.create({ data: { ...plain(id.toUpperCase()), posts } })
      await bound().user.update({ where: { id: id.toUpperCase() }, data: { posts: { create: post() } } })
      await bound().user.update({ where: { id }, data: { posts: { createMany: { data: [post()] } } } })
      const connectOrCreate = { where: { id: randomUUID() }, create: post() }
      await bound().user.create({ data: { ...plain(), posts: { create: post() } } })
      expect(await titles(id)).toEqual([SECRET, SECRET, SECRET, SECRET])
      expect(sent.join()).not.toContain(SECRET)
      await expect(bound().user.update({ where: { id }, data: { posts: { connectOrCreate } } })).rejects.toThrow(
        'connectOrCreate of the relation posts, which changes posts.user_id,',
      )
    })
    it('is sealed to it where the other is nested, or connected', async () => {
      const [made, found] = [randomUUID(), randomUUID()]
      await bound().post.create({ data: { ...post(), user: { create: plain(made) } } })
      await bound().user.create({ data: plain(found) })
      await bound().post.create({ data: { ...post(), user: { connect: { id: found.toUpperCase() } } } })
      expect([await titles(made), await titles(found)]).toEqual([[SECRET], [SECRET]])
    })
    it('is sealed to that of a row which is found by another unique field', async () => {
      const id = randomUUID()
      await bound().user.create({ data: plain(id) })
      await bound().user.update({ where: { email_index: id }, data: { posts: { create: post() } } })
      expect(await titles(id)).toEqual([SECRET])
    })
    it('is refused where the id is not known', async () => {
      const { id: _, ...without } = plain()
      const message = /field "user_id": a column of bind must hold text or a whole number/
      for (const run of [
        () => bound().user.create({ data: { ...without, posts: { create: post() } } as never }),
        () => bound().post.create({ data: { ...post(), user: { connect: { email_index: 'x' } } } }),
      ]) {
        await expect(run()).rejects.toMatchObject({ code: 'E_INVALID_INPUT', message: expect.stringMatching(message) })
      }
      assertNothingSent()
    })
    it('is refused a new id of the other, which the database would give it too', async () => {
      const [id, email_index] = [randomUUID(), 'x']
      const changes = [{ id }, { id: { set: id } }]
      const calls = [
        ...changes.map((data) => () => bound().user.update({ where: { id: ID }, data })),
        () => bound().user.updateMany({ data: { id } }),
        () => bound().user.upsert({ where: { id: ID }, create: plain(), update: { id } }),
        () => bound().post.update({ where: { id: ID }, data: { user: { update: { id } } } }),
      ]
      for (const call of calls) {
        await expect(call()).rejects.toMatchObject({
          code: 'E_INVALID_INPUT',
          message: expect.stringMatching(/^a change of User\.id, which changes posts\.user_id,/),
        })
      }
      const same = { id: ID, email_index }
      await bound().user.update({ where: { id: ID }, data: same })
      const again = { where: { email_index }, data: { ...same, city: 'Rome' } }
      expect(await bound().user.update(again)).toMatchObject({ id: ID, city: 'Rome' })
    })
    it('is never moved to another', async () => {
      const where = { id: ID }
      const MOVES: [string, () => Promise<unknown>][] = [
        ['connect', () => bound().post.update({ where, data: { user: { connect: { id: randomUUID() } } } })],
        ['create', () => bound().post.update({ where, data: { user: { create: plain() } } })],
        ['connect', () => bound().user.update({ where, data: { posts: { connect: { id: ID } } } })],
        ['connect', () => bound().user.create({ data: { ...plain(), posts: { connect: { id: ID } } } })],
        ['set', () => bound().user.update({ where, data: { posts: { set: [] } } })],
        ['disconnect', () => bound().user.update({ where, data: { posts: { disconnect: { id: ID } } as never } })],
      ]
      for (const [name, run] of MOVES) {
        await expect(run()).rejects.toMatchObject({
          code: 'E_INVALID_INPUT',
          message: expect.stringMatching(new RegExp(`^${name} of the relation \\w+, which changes posts\\.user_id`)),
        })
      }
      assertNothingSent()
    })
  })
  describe('a new row whose id the database makes', () => {
    const tickets = () => client.$extends(encrypted({ Ticket: models.tickets })).ticket
    const create = (label: string, parent?: object) =>
      tickets().create({ data: { label, parent } as never, select: { id: true, label: true, parent_id: true } })
    const label_index = 'x'
    const many = { data: [{ label: SECRET }] }

    it('is connected to another, by its key or another unique field', async () => {
      const first = await create(SECRET)
      for (const where of [{ id: first.id }, { label: SECRET }, { id: first.id, label: SECRET }]) {
        const label = `part ${JSON.stringify(where)}`
        const { id: _, ...row } = await create(label, { connect: where, create: undefined })
        expect(row).toEqual({ label, parent_id: first.id })
      }
      expect(await create('whole', {})).toMatchObject({ parent_id: null })
      const parts = { create: { label: 'nested', parts: { create: { label: 'deep' } }, parent: undefined } }
      const nested = await tickets().create({ data: { label: 'outer', parts, parent: { connect: { id: first.id } } } })
      const opened = await tickets().findUnique({
        where: { id: nested.id },
        select: { parent: { select: { label: true } }, parts: { select: { label: true, parts: true } } },
      })
      expect(opened).toMatchObject({
        parent: { label: SECRET },
        parts: [{ label: 'nested', parts: [{ label: 'deep' }] }],
      })
      const upsert = { where: { label: 'by' } as never, create: { label: 'by', parent: { connect: { id: first.id } } } }
      expect(await tickets().upsert({ ...upsert, update: {} })).toMatchObject({ label: 'by', parent_id: first.id })
      expect(sent.join()).not.toContain(SECRET)
    })
    it('is refused where Prisma would have to write or find the other first', async () => {
      const message = (name: string) =>
        `${name} of the relation parent in a new Ticket, whose id the database makes, is not supported`
      for (const [name, parent] of Object.entries({
        create: { create: { label: SECRET } },
        connectOrCreate: { connectOrCreate: { where: { id: 1 }, create: { label: SECRET } } },
      })) {
        const error = await create('part', parent).catch((refused: unknown) => refused)
        expect(error).toMatchObject({ code: 'E_INVALID_INPUT', message: expect.stringContaining(message(name)) })
        expect(error).toMatchObject({ hint: expect.stringContaining('or give its parent_id.') })
      }
      const list = () => tickets().create({ data: { label: 'part', parent: { connect: { label_index } } } })
      await expect(client.$transaction([list() as never])).rejects.toThrow('by another field')
      assertNothingSent()
      await expect(list()).rejects.toMatchObject({ code: 'P2025' })
      await expect(create('part', { connect: { id: 0 } })).rejects.toMatchObject({ code: 'P2003' })
      expect(await tickets().createMany(many)).toEqual({ count: 1 })
    })
    it('is found in the transaction of the call', async () => {
      const all = client.$extends(encrypted({ Ticket: models.tickets }))
      const row = await all.$transaction(async (tx) => {
        await tx.ticket.create({ data: { label: 'inside' } })
        const parent = { connect: { label: 'inside' } as never }
        return tx.ticket.create({ data: { label: 'part', parent }, include: { parent: true } })
      })
      expect(row).toMatchObject({ label: 'part', parent: { label: 'inside' } })
    })
  })
})
