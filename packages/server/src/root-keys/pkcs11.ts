// A root key in an HSM, used through the program `pkcs11-tool` of OpenSC. It is a key for HMAC-SHA-256 and never leaves
// the HSM. From it and 32 random bytes, the HSM computes a key that is used once.
import { randomBytes } from 'node:crypto'
import { concatBytes, counted, encodeUtf8, KEY_BYTES, OpenError } from '@eaas/protocol'
import { importKey, open, seal } from '../core/crypto/aead.js'
import { RootKeyError } from '../core/crypto/key-hierarchy.js'
import { readSecret } from './local-key.js'
import { runProgram } from './program.js'

const FORMAT = 0x01
const LABEL = encodeUtf8('eaas/root-key/v1')
const SALT_BYTES = 32

export interface HsmKey {
  module: string
  token: string
  id: string // CKA_ID of the key: pairs of hexadecimal digits in lower case, as the HSM lists it
  pinFile: string
}

/** Makes the key in the HSM. @throws RootKeyError if that id exists, or the HSM refuses */
export async function generateInHsm(key: HsmKey): Promise<void> {
  if ((await countKeys(key)) > 0)
    throw new RootKeyError(`The token ${key.token} has a key of the id ${key.id} already. Name another id.`)
  const kind = ['--key-type', `GENERIC:${KEY_BYTES}`, '--usage-sign', '--sensitive']
  await run(key, ['--keygen', ...kind, '--label', 'eaas root key', '--id', key.id])
}

/**
 * Wraps: `0x01 ‖ salt (32) ‖ iv ‖ ciphertext ‖ tag`, AES-256-GCM with the AAD `eaas/root-key/v1`, under the HSM's
 * HMAC-SHA-256 of that label and the salt.
 * @throws RootKeyError, also if the HSM has several keys of that id, any of which it could use the next time
 */
export async function wrapByHsm(key: HsmKey, bytes: Uint8Array): Promise<Uint8Array> {
  const count = await countKeys(key)
  if (count > 1) throw new RootKeyError(sharedId(key, count))
  const salt = randomBytes(SALT_BYTES)
  return concatBytes(Uint8Array.of(FORMAT), salt, seal(await derive(key, salt), bytes, LABEL))
}

/** Opens what `wrapByHsm` returned. @throws RootKeyError */
export async function unwrapByHsm(key: HsmKey, wrapped: Uint8Array): Promise<Uint8Array> {
  const at = 1 + SALT_BYTES
  try {
    if (wrapped[0] !== FORMAT) throw new OpenError()
    return open(await derive(key, wrapped.subarray(1, at)), wrapped.subarray(at), LABEL)
  } catch (error) {
    if (!(error instanceof OpenError)) throw error
    const count = await countKeys(key)
    if (count > 1) throw new RootKeyError(sharedId(key, count))
    throw new RootKeyError(`The key ${key.id} of the token ${key.token} does not open what it was given.`)
  }
}

async function countKeys(key: HsmKey): Promise<number> {
  const listed = await run(key, ['--list-objects', '--type', 'secrkey'])
  const ids = [...listed.toString().matchAll(/^ *ID: *([0-9a-f]+)\b/gim)].map(([, id]) => id?.toLowerCase())
  return ids.filter((id) => id === key.id).length
}

// The HSM uses any of these keys, so a wrapped key would open only in some tries.
function sharedId({ id, token }: HsmKey, count: number): string {
  return `The token ${token} has ${count} keys of the id ${id}. Give all but the one of this database another id or delete them, as the vendor's program does.`
}

async function derive(key: HsmKey, salt: Uint8Array) {
  const mac = await run(key, ['--sign', '--mechanism', 'SHA256-HMAC', '--id', key.id], concatBytes(LABEL, salt))
  if (mac.length !== KEY_BYTES)
    throw new RootKeyError(`The token ${key.token} answered with ${counted(mac.length, 'byte')}.`)
  return importKey(mac)
}

async function run(
  { module, token, pinFile }: HsmKey,
  args: string[],
  input: Uint8Array = new Uint8Array(),
): Promise<Buffer> {
  const login = ['--module', module, '--token-label', token, '--login', '--pin', 'env:EAAS_PKCS11_PIN']
  const variables = { EAAS_PKCS11_PIN: await readSecret(pinFile, `The file with the PIN, ${pinFile},`) }
  const isPinRefused = (_code: number | null, said: string) => /CKR_PIN_/.test(said)
  const options = { what: 'For the HSM,', variables, isQuiet: true, isPinRefused }
  return runProgram(['pkcs11-tool', ...login, ...args], input, options)
}
