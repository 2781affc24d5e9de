import { describe, expect, it } from 'vitest'
import { createClient, text } from '../../sdk/src/index.js'
import { createTestService } from '../../sdk/src/testing.js'
import { sealData } from './data.js'
import { readSchema } from './schema.js'

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
    ['postgresql', 'id String @id @default(dbgenerated("gen_random_uuid()"))'],
    ['sqlite', 'id String @id @default(uuid())'],
    ['mysql', 'id String @id @default(cuid())'],
    ['sqlite', 'id Int @id'],
  ])('can be bound to on %s: %s', async (provider, id) => {
    expect((await readWith(provider, id)).get('Note').made.size).toBe(id.includes('@default') ? 1 : 0)
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
  const { body } = (await sealData(schema, note, { id: 'abc', body: 'x' })) as { body: string }
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
