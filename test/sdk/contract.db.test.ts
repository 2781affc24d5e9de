// The service of `@eaas/sdk/testing` and a real server are one contract: the same cases, the same answers, field by field.
import { afterAll, describe, expect, it } from 'vitest'
import { API_CALLS, NOT_OF_THE_SDK } from '../../packages/sdk/src/test-support/api-calls.js'
import { ROUTES } from '../../packages/server/src/core/http/endpoints.js'
import type { ContractCase } from './contract/contract-case.js'
import { KEY_CASES } from './contract/keys.js'
import { inMemory, overHttp } from './contract/scene.js'
import { SERVER_MODE_CASES } from './contract/server-mode.js'
import { VALUE_CASES } from './contract/values.js'

/** The one of `/testing`, and the default of the server. */
const WAITING_PERIOD_MS = 7 * 86_400_000

/** The calls that the service in memory leaves to a real one. */
const LEFT_OUT = new Set<string>([
  ...NOT_OF_THE_SDK,
  ...['createApiKey', 'listApiKeys', 'updateApiKey', 'revokeApiKey', 'listAudit', 'verifyAudit', 'getUsage'],
])

const EVERY_CALL: ContractCase = {
  rule: 'are answered alike, each with success',
  options: { serverMode: true },
  async run({ connect, pass }) {
    const eaas = connect()
    const { id: keyId, name } = await eaas.keys.create({ name: 'users' })
    const stored = await eaas.encrypt('x', { keyId, envelope: 1 })
    for (const [operation, [, call]] of Object.entries(API_CALLS)) {
      if (LEFT_OUT.has(operation)) continue
      if (operation === 'destroyVersion') await pass(WAITING_PERIOD_MS)
      await call(eaas, { keyId, name, text: 'x', stored, apiKeyId: '' })
    }
  },
}

const real = overHttp()
const fake = inMemory()
const succeeded = new Set<string>()
afterAll(async () => {
  await real.close()
  await fake.close()
})

describe.each([
  ['the calls of the SDK', [EVERY_CALL]],
  ['keys', KEY_CASES],
  ['values', VALUE_CASES],
  ['server mode', SERVER_MODE_CASES],
])('%s', (_, cases) => {
  it.each(cases.map((one) => [one.rule, one] as const))('%s', async (_, { options = {}, run }) => {
    const answers = await real.play(options, run)
    expect(answers.length).toBeGreaterThan(0)
    expect(await fake.play(options, run)).toEqual(answers)
    for (const { asked, status } of answers) {
      if (status >= 200 && status < 300)
        succeeded.add(
          asked
            .replace(/\?.*/, '')
            .replace(/an id \d+/, ':id')
            .replace(/versions\/\d+/, 'versions/:version'),
        )
    }
  })
})

describe('the cases', () => {
  it('make every call with success that the service in memory answers', () => {
    const made = ROUTES.filter(({ operationId }) => !LEFT_OUT.has(operationId))
    const calls = made.map(({ method, path }) => `${method} ${path}`)
    expect([...succeeded].sort()).toEqual([...calls, 'GET /health'].sort())
  })
})
