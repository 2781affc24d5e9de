// The files through which a warm `encrypt()` and `model.encrypt()` run, those of the protocol included, held against the SDK's README.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, it } from 'vitest'
import { createClient, number, text } from '../../../packages/sdk/src/index.js'
import { createTestService } from '../../../packages/sdk/src/testing.js'
import { filesRun } from '../../support/sources/files-run.js'
import { ROOT } from '../../support/sources/source-files.js'

const readme = readFileSync(join(ROOT, 'packages/sdk/src/README.md'), 'utf8')
const named = [...readme.matchAll(/`((?:protocol\/)?(?:[\w-]+\/)*[\w-]+\.ts)`/g)].map(([, path = '']) =>
  path.startsWith('protocol/') ? path.replace('/', '/src/') : `sdk/src/${path}`,
)

const service = createTestService()
/** The answers to calls that were made before: none of the service's own code runs for them. */
const answers = new Map<string, string>()
const eaas = createClient({
  ...service,
  async fetch(url, init) {
    const call = `${init.method} ${url} ${init.body}`
    const text = answers.get(call) ?? (await (await service.fetch(url, init as RequestInit)).text())
    answers.set(call, text)
    return new Response(text, { headers: { 'content-type': 'application/json' } })
  },
})
const { id: keyId } = await eaas.keys.create({ name: 'users' })
const users = eaas.model({
  name: 'users',
  keyId,
  bind: ['id'],
  fields: { email: text({ index: 'email_index', normalize: ['trim', 'lowercase'] }), note: text(), age: number() },
})
afterAll(() => eaas.close())

it.each([
  ['encrypt()', 13, () => eaas.encrypt('called twice', { keyId, context: { user: '1' } })],
  ['model.encrypt()', 28, () => users.encrypt({ id: 1, email: 'ada@example.org', note: 'called twice', age: 36 })],
])('takes a warm %s through at most %i files, all of which the README names', async (_, most, call) => {
  for (let times = 0; times < 2; times++) await call()
  await new Promise((resolve) => setTimeout(resolve, 10)) // what the first call left for a later turn
  const ran = await filesRun('packages', call)
  expect(ran.length).toBeLessThanOrEqual(most)
  expect(ran.filter((path) => !named.includes(path))).toEqual([])
})
