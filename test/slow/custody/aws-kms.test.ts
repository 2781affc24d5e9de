// A root key in AWS KMS, of which moto's server is a stand-in.
import { CreateKeyCommand, KMSClient } from '@aws-sdk/client-kms'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { readConfig } from '../../../packages/server/src/core/config.js'
import { providerOf } from '../../../packages/server/src/root-keys/open-provider.js'
import { findOrInstallMoto, type Moto, startMoto } from '../../support/custody/moto.js'
import { type ProviderUnderTest, testProvider } from '../../support/custody/provider-suite.js'

const program = findOrInstallMoto()
const region = 'eu-central-1'

let moto: Moto
let client: KMSClient
beforeAll(async () => {
  if (program === undefined) return
  moto = await startMoto(program)
  // What the client itself reads.
  reachAt(moto.url)
  Object.assign(process.env, { AWS_ACCESS_KEY_ID: 'test', AWS_SECRET_ACCESS_KEY: 'test' })
  client = new KMSClient({ region })
})
afterAll(() => moto?.remove())

function reachAt(url: string): void {
  process.env.AWS_ENDPOINT_URL = url
}

async function makeKey(): Promise<string> {
  const { KeyMetadata } = await client.send(new CreateKeyCommand({}))
  return KeyMetadata?.Arn ?? ''
}

describe.skipIf(program === undefined)('a root key in AWS KMS', () => {
  testProvider(async (): Promise<ProviderUnderTest> => {
    const KeyId = await makeKey()
    return {
      health: 'aws-kms',
      environment: { EAAS_ROOT_KEY_AWS_KMS: KeyId },
      takeAway: async () => reachAt('http://127.0.0.1:1'),
      bringBack: async () => reachAt(moto.url),
      remove: async () => undefined,
    }
  })

  it('does not open what another key wrapped', async () => {
    const [one, other] = [await makeKey(), await makeKey()]
    const open = (arn: string) => providerOf(readConfig({ EAAS_ROOT_KEY_AWS_KMS: arn }))
    const wrapped = await (await open(one)).wrap(Buffer.alloc(36, 3))
    expect(Buffer.from(await (await open(one)).unwrap(wrapped))).toEqual(Buffer.alloc(36, 3))
    await expect((await open(other)).unwrap(wrapped)).rejects.toMatchObject({ name: 'RootKeyError' })
  })
})
