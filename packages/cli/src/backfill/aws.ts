/** Reads messages of the AWS Encryption SDK. Its own client decrypts them, with the caller's keyring. */
import { decodeBase64, decodeUtf8 } from '@eaas/protocol'
import { ContentError, InvalidInputError, isEaasError } from '@eaas/sdk'
import { assertFlag, assertOptions, kindOf, type Reader, type Row, spelledAs } from '@eaas/sdk/maintenance'
import { askWithRow, ROW_HINT } from './table.js'

/** What a reader uses of the result of `decrypt` from `@aws-crypto/client-node` or `-browser`. */
export interface AwsDecrypted {
  plaintext: Uint8Array
  messageHeader: { readonly encryptionContext: Readonly<Record<string, string>> }
}

type Context = Readonly<Record<string, string>>

export interface AwsMessageOptions {
  /**
   * Decrypts one message: `(message) => decrypt(keyring, message)`, with `decrypt` of `buildClient()` and your keyring
   * or materials manager.
   */
  decrypt: (message: Uint8Array) => Promise<AwsDecrypted>
  /**
   * Members that the encryption context of each message must have, at least one, or a function that returns those of a
   * row: `(row) => ({ id: String(row.id) })`. A row fails if the function reads a column that the row lacks. A message
   * may have more members: the client adds a public key when it signs.
   */
  encryptionContext?: Context | ((row: Readonly<Row>) => Context) | undefined
  /** Whether the values were text (the default) or bytes before they were encrypted. */
  as?: 'text' | 'bytes' | undefined
  /** If `true`, also takes values that do not begin like a message as plaintext. */
  acceptPlaintext?: boolean | undefined
}

/**
 * Makes a reader of messages of the AWS Encryption SDK, versions 1 and 2, stored in base64, in hex or as bytes. Only
 * your `decrypt` uses the network. A row fails if its value is not a message, if `decrypt` refuses it, or if its
 * encryption context lacks a member. A message moved here from another row is only noticed if the encryption context
 * depends on the row.
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
  if (typeof encryptionContext !== 'function') {
    assertOptions('encryptionContext', encryptionContext)
    const wrong = Object.values(encryptionContext).find((value) => typeof value !== 'string')
    if (wrong !== undefined)
      throw new InvalidInputError(`encryptionContext: a value must be text, got ${kindOf(wrong)}`)
  }
  return async (stored, row) => {
    const spelled = spelledAs('aws', stored)
    if (spelled === undefined) {
      if (acceptPlaintext) return stored
      const hint = 'Look at the stored value; pass `acceptPlaintext: true` if the column holds plaintext too.'
      throw new ContentError('not a message of the AWS Encryption SDK, in base64, in hex or as bytes', hint)
    }
    const message = decodeMessage(spelled)
    const expected =
      typeof encryptionContext === 'function' ? membersFor(encryptionContext, row) : Object.entries(encryptionContext)
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

/** @throws ContentError when a row yields no member, or one without text: any message would then fit */
function membersFor(encryptionContext: (row: Readonly<Row>) => unknown, row: Readonly<Row>): [string, string][] {
  const members = Object.entries(Object(askWithRow('encryptionContext', encryptionContext, row)))
  if (members.length > 0 && members.every((one): one is [string, string] => typeof one[1] === 'string')) return members
  const hint = `Return what the message was encrypted with, every member as text. ${ROW_HINT}`
  throw new ContentError('`encryptionContext` returned no members with text for the row', hint)
}

/** @throws ContentError when a value that begins like a message is truncated, altered or in another alphabet */
function decodeMessage(spelled: string): Uint8Array {
  try {
    return decodeBase64(spelled)
  } catch {
    const hint = 'Look at the stored value: base64 has the standard alphabet and padding, and nothing stands around it.'
    throw new ContentError('it begins as a message of the AWS Encryption SDK, and is none', hint)
  }
}

/** @throws ContentError when the client refuses, for any reason: its own error may quote the value */
async function open(decrypt: AwsMessageOptions['decrypt'], message: Uint8Array): Promise<AwsDecrypted> {
  let opened: AwsDecrypted | undefined
  try {
    opened = await decrypt(message)
  } catch (error) {
    if (isEaasError(error)) throw error // E_NETWORK, for example, which ends the run
  }
  if (opened && ArrayBuffer.isView(opened.plaintext)) return opened
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
