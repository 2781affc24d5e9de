// The service of `@eaas/sdk/testing` and a real server are one contract: the same cases, the same answers, field by field.
import { afterAll, describe, expect, it } from 'vitest'
import { ROUTES } from '../../packages/server/src/http/bind-routes.js'
import { API_KEY_CASES } from './contract/api-keys.js'
import { AUDIT_CASES } from './contract/audit.js'
import { KEY_CASES } from './contract/keys.js'
import { REFUSAL_CASES } from './contract/refusals.js'
import { inMemory, overHttp } from './contract/scene.js'
import { SERVER_MODE_CASES } from './contract/server-mode.js'
import { VALUE_CASES } from './contract/values.js'

/** For auditors, who use the command line. */
const NOT_OF_THE_SDK = ['GET /v1/audit/checkpoint', 'GET /v1/audit/export']

const real = overHttp()
const fake = inMemory()
const succeeded = new Set<string>()
afterAll(async () => {
  await real.close()
  await fake.close()
})

describe.each([
  ['keys', KEY_CASES],
  ['values', VALUE_CASES],
  ['server mode', SERVER_MODE_CASES],
  ['API keys', API_KEY_CASES],
  ['the audit log', AUDIT_CASES],
  ['refusals', REFUSAL_CASES],
])('%s', (_, cases) => {
  it.each(cases.map((one) => [one.rule, one] as const))('%s', async (_, { options = {}, run }) => {
    const answers = await real.play(options, run)
    expect(answers.length).toBeGreaterThan(0)
    expect(await fake.play(options, run)).toEqual(answers)
    for (const { asked, status } of answers) {
      if (status < 300) succeeded.add(asked.replace(/\?.*/, '').replace(/an id \d+/, ':id'))
    }
  })
})

describe('the cases', () => {
  it('make every call of the API with success that the SDK makes', () => {
    const calls = ROUTES.map(({ method, path }) => `${method} ${path}`).filter((call) => !NOT_OF_THE_SDK.includes(call))
    expect([...succeeded].sort()).toEqual([...calls, 'GET /health'].sort())
  })
})
