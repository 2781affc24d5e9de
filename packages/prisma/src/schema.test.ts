import { describe, expect, it } from 'vitest'
import { createClient, text } from '../../sdk/src/index.js'
import { createTestService } from '../../sdk/src/testing.js'
import { readSchema } from './schema.js'

const clientOf = (activeProvider: string, id: string) => ({
  _runtimeDataModel: {
    models: { Note: { fields: [field('id', id.split(' ')[1] ?? ''), field('body', 'String')] } },
  },
  _engineConfig: { activeProvider, inlineSchema: `model Note {\n  ${id}\n  body String\n}` },
})
const field = (name: string, type: string) => ({ name, type, kind: 'scalar' })

async function readWith(provider: string, id: string, bind: false | string[] = ['id']) {
  const eaas = createClient(createTestService())
  const { id: keyId } = await eaas.keys.create({ name: 'notes' })
  const model = eaas.model({ name: 'notes', keyId, bind: bind as never, format: 'text', fields: { body: text() } })
  return readSchema(clientOf(provider, id), { Note: model })
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
