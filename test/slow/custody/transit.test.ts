// A root key in the Transit engine of a real OpenBao, with a token and with an AppRole, as the page says.
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readConfig } from '../../../packages/server/src/core/config.js'
import { providerOf } from '../../../packages/server/src/root-keys/open-provider.js'
import { type ProviderUnderTest, testProvider } from '../../support/custody/provider-suite.js'
import { findOrInstallOpenbao } from '../../support/openbao/find-openbao.js'
import { type Openbao, startOpenbao } from '../../support/openbao/openbao.js'
import { guardedDir } from '../../support/run/guarded-dir.js'

const program = findOrInstallOpenbao()

const POLICY = `
path "transit/encrypt/eaas" { capabilities = ["update"] }
path "transit/decrypt/eaas" { capabilities = ["update"] }`

let bao: Openbao
let folder: string
beforeAll(async () => {
  if (program === undefined) return
  bao = await startOpenbao({ program })
  folder = guardedDir('eaas-bao').path
  const made = [
    await bao.send('POST', 'transit/keys/eaas', { type: 'aes256-gcm96' }),
    await bao.send('PUT', 'sys/policies/acl/eaas', { policy: POLICY }),
    await bao.send('POST', 'sys/auth/approle', { type: 'approle' }),
    await bao.send('POST', 'auth/approle/role/eaas', { token_policies: ['eaas'], token_ttl: '60s' }),
  ]
  expect(made.map(({ status }) => status < 300)).toEqual([true, true, true, true])
})
afterAll(() => bao?.remove())

/** The variables of a server, with a login in a file. */
function environmentOf(login: 'TOKEN' | 'APPROLE', text: string): Record<string, string> {
  const file = join(folder, login)
  writeFileSync(file, `${text}\n`, { mode: 0o600 })
  return {
    EAAS_ROOT_KEY_TRANSIT: `${bao.url}/v1/transit/keys/eaas`,
    [`EAAS_ROOT_KEY_TRANSIT_${login}_FILE`]: file,
  }
}

const underTest = (environment: Record<string, string>): ProviderUnderTest => ({
  health: 'transit',
  environment,
  takeAway: () => bao.seal(),
  bringBack: () => bao.unseal(),
  remove: async () => undefined,
})

async function makeToken(): Promise<string> {
  const { body } = await bao.send('POST', 'auth/token/create', { policies: ['eaas'] })
  return body.auth.client_token
}

async function makeAppRole(): Promise<string> {
  const { body: role } = await bao.send('GET', 'auth/approle/role/eaas/role-id')
  const { body: secret } = await bao.send('POST', 'auth/approle/role/eaas/secret-id')
  return `${role.data.role_id}\n${secret.data.secret_id}`
}

describe.skipIf(program === undefined)('a root key in Transit, with a token', () => {
  testProvider(async () => underTest(environmentOf('TOKEN', await makeToken())))

  it('goes on after Transit rotated its own key, and is refused without its policy', async () => {
    const environment = environmentOf('TOKEN', await makeToken())
    const provider = await providerOf(readConfig(environment))
    const wrapped = await provider.wrap(Buffer.alloc(36, 1))
    expect((await bao.send('POST', 'transit/keys/eaas/rotate')).status).toBeLessThan(300)
    expect(Buffer.from(await provider.unwrap(wrapped))).toEqual(Buffer.alloc(36, 1))
    const other = { ...environment, EAAS_ROOT_KEY_TRANSIT: `${bao.url}/v1/transit/keys/other` }
    await expect((await providerOf(readConfig(other))).wrap(Buffer.alloc(36))).rejects.toThrow('answered with 403')
  })
})

describe.skipIf(program === undefined)('a root key in Transit, with an AppRole', () => {
  testProvider(async () => underTest(environmentOf('APPROLE', await makeAppRole())))
})
