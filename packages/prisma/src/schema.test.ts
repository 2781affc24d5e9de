import { describe, expect, it } from 'vitest'
import { createClient, text } from '../../sdk/src/index.js'
import { createTestService } from '../../sdk/src/testing.js'
import { sealData } from './data.js'
import { readSchema } from './schema.js'
import { rewriteWhere } from './where.js'

const clientOf = (activeProvider: string, id: string, body = 'body String @db.LongText') => ({
  _runtimeDataModel: {
    models: {
      Note: {
        fields: [
          field('id', id.split(' ')[1]?.replace(/\W+/, '') ?? ''),
          field('body', body.split(' ')[1]?.replace(/\W+/, '') ?? ''),
        ],
      },
    },
  },
  _engineConfig: { activeProvider, inlineSchema: `model Note {\n  ${id}\n  ${body}\n}` },
})
const field = (name: string, type: string) => ({ name, type, kind: 'scalar' })

async function readWith(provider: string, id: string, bind: false | string[] = ['id'], body?: string) {
  const eaas = createClient(createTestService())
  const { id: keyId } = await eaas.keys.create({ name: 'notes' })
  const model = eaas.model({ name: 'notes', keyId, bind: bind as never, format: 'text', fields: { body: text() } })
  return readSchema(clientOf(provider, id, body), { Note: model })
}

describe('the ids of a schema', () => {
  it.each([
    ['postgresql', 'id Int @id @default(autoincrement())'],
    ['postgres', 'id String @id @default(dbgenerated("gen_random_uuid()"))'],
    ['sqlite', 'id String @id @default(uuid())'],
    ['mysql', 'id String @id @default(cuid())'],
    ['sqlite', 'id Int @id'],
  ])('can be bound to on %s: %s', async (provider, id) => {
    const schema = await readWith(provider, id)
    expect(schema.get('Note').made.size).toBe(id.includes('@default') ? 1 : 0)
    expect(schema.ofPostgres.length).toBe(provider.startsWith('postgres') ? 1 : 0)
  })
  it.each(['sqlite', 'mysql', 'sqlserver', 'cockroachdb'])(
    'are refused at set-up where a database of %s makes them',
    async (provider) => {
      const id = 'id Int @id @default(autoincrement())'
      await expect(readWith(provider, id)).rejects.toMatchObject({
        code: 'E_INVALID_INPUT',
        message: `Note: values cannot be bound to id: a database of ${provider} makes it, and cannot be asked for it before the insert`,
      })
      await readWith(provider, id, false)
    },
  )
})

it('an id that its column fills up with spaces is bound to as the database returns it', async () => {
  const schema = await readWith('postgresql', 'id String @id @db.Char(5)')
  const note = schema.get('Note')
  const { body } = (await sealData(note, { id: 'abc', body: 'x' })) as { body: string }
  expect(await note.sealed?.openRows([{ id: 'abc  ', body }])).toEqual([{ id: 'abc  ', body: 'x' }])
})

describe('the fields of a schema', () => {
  const ID = 'id Int @id'

  it.each([
    ['postgresql', 'body String @db.VarChar(100)', 'String of 100 characters'],
    ['mysql', 'body String', 'String of 191 characters'],
    ['postgresql', 'body Int', 'Int'],
    ['postgresql', 'body String[]', 'String[]'],
  ])('are refused at set-up where they cannot hold what is stored: %s, %s', async (provider, body, type) => {
    await expect(readWith(provider, ID, ['id'], body)).rejects.toThrow(
      `the field "body" of the model Note is ${type}, which does not hold what is stored in it`,
    )
  })
  it.each(['body String', 'body Json', 'body String? @db.Text', 'body String @db.VarChar(2000)'])(
    'hold it: %s',
    async (body) => {
      expect((await readWith('postgresql', ID, ['id'], body)).get('Note').sealed?.isSealed('body')).toBe(true)
    },
  )
  it.each(['body String @default("none")', 'body String? @default(uuid()) @db.Text', 'body Json @default("{}")'])(
    'are refused where their default would be stored in plaintext: %s',
    async (body) => {
      await expect(readWith('postgresql', ID, ['id'], body)).rejects.toThrow(
        'the field "body" of the model Note has a default, which would be stored in plaintext',
      )
    },
  )
  it('are refused where a row may lack what its values are bound to', async () => {
    await expect(readWith('postgresql', 'id Int? @unique')).rejects.toThrow(
      'values cannot be bound to id: it may be null',
    )
  })
})

describe('the compound unique keys of a schema', () => {
  const INDEXED = '@@unique([tenant, mail_index])'

  async function readKeys(...lines: string[]) {
    const eaas = createClient(createTestService())
    const { id: keyId } = await eaas.keys.create({ name: 'users' })
    const fields = { mail: text({ index: 'mail_index', normalize: ['lowercase'] }), note: text() }
    const model = eaas.model({ name: 'users', keyId, bind: ['id'], format: 'text', warn: false, fields })
    const columns = ['id String @id', 'tenant Int', 'mail String', 'mail_index String?', 'note String']
    const User = { fields: columns.map((one) => field(one.split(' ')[0] ?? '', 'String')) }
    const inlineSchema = `model User {\n  ${[...columns, ...lines].join('\n  ')}\n}`
    const config = { activeProvider: 'postgresql', inlineSchema }
    const schema = readSchema({ _runtimeDataModel: { models: { User } }, _engineConfig: config }, { User: model })
    const { mail_index } = await model.index({ mail: 'ada@x.org' })
    return { mail_index, find: (where: object) => rewriteWhere(schema.get('User'), where) }
  }

  it.each([
    ['tenant_mail', 'tenant_mail_index', '@@unique([tenant, mail])', INDEXED],
    [
      'tenant_mail',
      'mail_index_tenant',
      '@@unique(fields: [tenant, mail])',
      '@@unique([mail_index(sort: Desc), tenant])',
    ],
    [
      'byMail',
      'byIndex',
      '@@unique([tenant, mail], name: "byMail", map: "x")',
      '@@unique(name: "byIndex", [tenant, mail_index])',
    ],
    ['tenant_mail', 'tenant_mail_index', '@@unique([tenant, mail])', '@@id([tenant, mail_index])'],
  ])('find a row by %s, with the index in place of the field: %s', async (key, indexed, ...lines) => {
    const { find, mail_index } = await readKeys(...lines)
    const where = { [key]: { tenant: 1, mail: 'ADA@x.org' }, note: null }
    expect(await find(where)).toEqual({ [indexed]: { tenant: 1, mail_index }, note: null })
  })
  it('are left as they are without an encrypted field', async () => {
    const { find } = await readKeys(INDEXED)
    const where = { tenant_mail_index: { tenant: 1, mail_index: 'x' } }
    expect(await find(where)).toEqual(where)
  })
  it('are refused without one of the index, or without an index', async () => {
    const { find } = await readKeys('@@unique([tenant, mail])', '@@unique([tenant, note])')
    await expect(find({ tenant_mail: { mail: 'ada@x.org', tenant: 1 } })).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      message: 'users.mail is encrypted: rows are found by tenant_mail only if its index is unique so too',
      hint: 'Add @@unique([tenant, mail_index]) beside it in the schema.',
    })
    await expect(find({ tenant_note: { note: 'x', tenant: 1 } })).rejects.toMatchObject({
      message: expect.stringContaining('users.note is encrypted: it has no index'),
    })
  })
})
