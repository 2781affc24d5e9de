/** A symmetric key of AWS KMS, in the region of its ARN. The client, an optional dependency, finds the credentials. */
import { RootKeyError, type RootKeyProvider } from '../core/crypto/key-hierarchy.js'

/** Bound to each wrapped key; policies can use it as a condition. */
const EncryptionContext = { eaas: 'root-key/v1' }
const PATIENCE_MS = 30_000

/** The provider of a key by its ARN. @throws RootKeyError if the client is not installed */
export async function awsKmsProvider(arn: string): Promise<RootKeyProvider> {
  const [, region] = /^arn:[^:]+:kms:([^:]+):\d+:(?:key|alias)\/.+$/.exec(arn) ?? []
  if (region === undefined) {
    throw new RootKeyError(
      'The key of AWS KMS must be named by its ARN, such as arn:aws:kms:eu-central-1:111122223333:key/….',
    )
  }
  const { KMSClient, EncryptCommand, DecryptCommand } = await loadClient()
  const ask = async <T>(work: (client: InstanceType<typeof KMSClient>) => Promise<T>): Promise<T> => {
    const client = new KMSClient({ region })
    try {
      return await work(client)
    } catch (error) {
      throw new RootKeyError(`The key of AWS KMS ${arn}: ${(error as Error).name}. ${(error as Error).message}`)
    } finally {
      client.destroy()
    }
  }
  const patience = () => ({ abortSignal: AbortSignal.timeout(PATIENCE_MS) })
  const given = (bytes: Uint8Array | undefined) => {
    if (!bytes) throw new RootKeyError(`The key of AWS KMS ${arn} answered with nothing.`)
    return bytes
  }
  return {
    kind: 'aws-kms',
    name: arn,
    async wrap(Plaintext) {
      const command = new EncryptCommand({ KeyId: arn, Plaintext, EncryptionContext })
      return given((await ask((client) => client.send(command, patience()))).CiphertextBlob)
    },
    async unwrap(CiphertextBlob) {
      const command = new DecryptCommand({ KeyId: arn, CiphertextBlob, EncryptionContext })
      return given((await ask((client) => client.send(command, patience()))).Plaintext)
    },
  }
}

async function loadClient(): Promise<typeof import('@aws-sdk/client-kms')> {
  try {
    return await import('@aws-sdk/client-kms')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ERR_MODULE_NOT_FOUND') throw error
    throw new RootKeyError('EAAS_ROOT_KEY_AWS_KMS needs the client of AWS KMS: npm install @aws-sdk/client-kms')
  }
}
