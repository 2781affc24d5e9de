/** Reads messages of the AWS Encryption SDK, in base64 or as bytes, by the `decrypt` of its own client, which holds the caller's keyring. */
import { decodeBase64, decodeUtf8 } from '@eaas/protocol'
import { ContentError, InvalidInputError, isEaasError } from '../errors.js'
import { assertFlag, assertOptions, kindOf, readBinary } from '../input.js'
import { beginsAs } from './foreign.js'
import type { Reader } from './works.js'

/** What the `decrypt` of `@aws-crypto/client-node` or `-browser` resolves to, as far as a reader looks at it. */
export interface AwsDecrypted {
  plaintext: Uint8Array
  messageHeader: { readonly encryptionContext: Readonly<Record<string, string>> }
}

export interface AwsMessageOptions {
  /** Decrypts one message: `(message) => decrypt(keyring, message)`, with `decrypt` of `buildClient()` and your keyring, or your materials manager. */
  decrypt: (message: Uint8Array) => Promise<AwsDecrypted>
  /** Members that the encryption context of each message must have. It may have more: the client adds a public key where it signs. */
  encryptionContext?: Readonly<Record<string, string>> | undefined
  /** Whether the values were text (the default) or bytes before they were encrypted. */
  as?: 'text' | 'bytes' | undefined
  /** `true` also takes values that do not begin as a message does as plaintext. */
  acceptPlaintext?: boolean | undefined
}

/**
 * Makes a reader of messages of the AWS Encryption SDK, versions 1 and 2, that are stored in base64 or as bytes. Uses the network only as your `decrypt`
 * does. A value that is no message, that `decrypt` refuses, or whose encryption context lacks a member fails its row.
 *
 * @throws InvalidInputError when an option is wrong
 */
export function awsMessageReader(options: AwsMessageOptions): Reader {
  assertOptions('awsMessageReader()', options, OPTIONS)
  const { decrypt, encryptionContext = {}, as = 'text', acceptPlaintext } = options
  assertFlag('acceptPlaintext', acceptPlaintext)
  if (typeof decrypt !== 'function') {
    const hint = 'Pass `(message) => decrypt(keyring, message)`, with `decrypt` of your client.'
    throw new InvalidInputError(`decrypt must be a function, got ${kindOf(decrypt)}`, hint)
  }
  if (as !== 'text' && as !== 'bytes') throw new InvalidInputError('as must be text or bytes')
  assertOptions('encryptionContext', encryptionContext)
  const expected = Object.entries(encryptionContext)
  const wrong = expected.find(([, value]) => typeof value !== 'string')
  if (wrong) throw new InvalidInputError(`encryptionContext: a value must be text, got ${kindOf(wrong[1])}`)
  return async (stored) => {
    const message = readMessage(stored)
    if (!message) {
      // What begins as messages do is one that was cut or altered.
      if (acceptPlaintext && !beginsAs('aws', stored)) return stored
      const hint = 'Look at the stored value; pass `acceptPlaintext: true` if the column holds plaintext too.'
      throw new ContentError('not a message of the AWS Encryption SDK, in base64 or as bytes', hint)
    }
    const { plaintext, messageHeader } = await open(decrypt, message)
    const context = messageHeader?.encryptionContext
    if (expected.some(([name, value]) => context?.[name] !== value)) {
      const hint = 'Look where the value comes from: the members of `encryptionContext` say for what it was encrypted.'
      throw new ContentError('the message has another encryption context', hint)
    }
    return as === 'bytes' ? new Uint8Array(plaintext) : toText(plaintext)
  }
}

const OPTIONS = ['decrypt', 'encryptionContext', 'as', 'acceptPlaintext'] satisfies (keyof AwsMessageOptions)[]

/** Returns the bytes of a message, and undefined for anything else. */
function readMessage(stored: unknown): Uint8Array | undefined {
  if (!beginsAs('aws', stored)) return undefined
  if (typeof stored !== 'string') return readBinary(stored)
  try {
    return decodeBase64(stored)
  } catch {
    return undefined // cut, or in another alphabet
  }
}

/** @throws ContentError when the client refuses, for whatever reason: its own error may quote the value */
async function open(decrypt: AwsMessageOptions['decrypt'], message: Uint8Array): Promise<AwsDecrypted> {
  let opened: AwsDecrypted | undefined
  try {
    opened = await decrypt(message)
  } catch (error) {
    if (isEaasError(error)) throw error // such as E_NETWORK, by which the caller ends the run
  }
  if (readBinary(opened?.plaintext) && opened) return opened
  throw new ContentError(
    '`decrypt` opened no message',
    'Check that it is `(message) => decrypt(keyring, message)`, that the keyring has every key of the column, and that the commitment policy accepts the message: `REQUIRE_ENCRYPT_ALLOW_DECRYPT` for those of version 1.',
  )
}

function toText(plaintext: Uint8Array): string {
  try {
    return decodeUtf8(plaintext)
  } catch {
    throw new ContentError('the message holds no UTF-8 text', "Pass `as: 'bytes'`, for a field of bytes().")
  }
}
