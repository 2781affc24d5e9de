// The transit engine of Vault and OpenBao, in memory, for tests without one. test/slow/transit.test.ts compares it
// with OpenBao.
import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto'

const IV_BYTES = 12
const TAG_BYTES = 16

interface Item {
  plaintext?: string
  ciphertext?: string
}

export interface Transit {
  /** Answers a POST to `/v1/transit/{encrypt,decrypt}/<key>` or `/v1/transit/keys/<key>/rotate`. A key is made when it is first used to encrypt. */
  post(path: string, body: string): Promise<{ status: number; body: unknown }>
  /** The paths of all requests. */
  requests: string[]
}

export function createTransit(): Transit {
  const versions = new Map<string, Uint8Array[]>()
  const requests: string[] = []
  const answer = (path: string, body: string): { status: number; body: unknown } => {
    const [, verb, name = '', rotate] = /^\/v1\/transit\/(encrypt|decrypt|keys)\/([^/]+)(\/rotate)?$/.exec(path) ?? []
    if (verb === 'encrypt' && !versions.has(name)) versions.set(name, [randomBytes(32)])
    const keys = versions.get(name)
    if (!keys) return { status: 400, body: { errors: ['encryption key not found'] } }
    if (verb === 'keys' && rotate) {
      keys.push(randomBytes(32))
      return { status: 200, body: { data: { latest_version: keys.length } } }
    }
    const given = JSON.parse(body) as Item & { batch_input?: Item[] }
    const act = (item: Item) => (verb === 'encrypt' ? encrypt(keys, item) : decrypt(keys, item))
    if (given.batch_input) {
      const batch_results = given.batch_input.map(act)
      return { status: batch_results.some(({ error }) => error) ? 400 : 200, body: { data: { batch_results } } }
    }
    const { error, ...data } = act(given)
    return error === undefined ? { status: 200, body: { data } } : { status: 400, body: { errors: [error] } }
  }
  return {
    requests,
    async post(path, body) {
      requests.push(path)
      return answer(path, body)
    },
  }
}

type Result = { plaintext?: string; ciphertext?: string; key_version?: number; error?: string }

function encrypt(keys: readonly Uint8Array[], { plaintext = '' }: Item): Result {
  const iv = randomBytes(IV_BYTES)
  const cipher = createCipheriv('aes-256-gcm', keys.at(-1) ?? new Uint8Array(), iv)
  const sealed = Buffer.concat([
    iv,
    cipher.update(Buffer.from(plaintext, 'base64')),
    cipher.final(),
    cipher.getAuthTag(),
  ])
  return { ciphertext: `vault:v${keys.length}:${sealed.toString('base64')}`, key_version: keys.length }
}

function decrypt(keys: readonly Uint8Array[], { ciphertext = '' }: Item): Result {
  const [, version, base64 = ''] = /^vault:v(\d+):(.*)$/.exec(ciphertext) ?? []
  const key = keys[Number(version) - 1]
  const sealed = Buffer.from(base64, 'base64')
  if (!key) return { plaintext: '', error: 'invalid ciphertext: version is too new' }
  if (sealed.length < IV_BYTES + TAG_BYTES) return { plaintext: '', error: 'invalid ciphertext length' }
  try {
    const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, IV_BYTES))
    decipher.setAuthTag(sealed.subarray(-TAG_BYTES))
    const opened = Buffer.concat([decipher.update(sealed.subarray(IV_BYTES, -TAG_BYTES)), decipher.final()])
    return { plaintext: opened.toString('base64') }
  } catch {
    return { plaintext: '', error: 'cipher: message authentication failed' }
  }
}
