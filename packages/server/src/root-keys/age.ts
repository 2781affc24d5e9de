// Encrypts to recipients of age (age-encryption.org/v1): texts as armor, and streams in bounded memory. Decrypts only
// the stream of a backup.
import type { Encrypter } from 'age-encryption'

export class RecipientError extends Error {
  override readonly name = 'RecipientError'
}

export class DecryptError extends Error {
  override readonly name = 'DecryptError'
}

export type Encrypt = (bytes: Uint8Array) => Promise<string>

/** Reads recipients, at least one, before there is anything to encrypt. @throws RecipientError */
export async function encryptTo(recipients: readonly string[]): Promise<Encrypt> {
  const encrypter = await readRecipients(recipients)
  const { armor } = await import('age-encryption')
  return async (bytes) => armor.encode(await encrypter.encrypt(new Uint8Array(bytes)))
}

type Bytes = ReadableStream<Uint8Array>

/** Reads recipients, at least one; the returned function encrypts a stream. @throws RecipientError */
export async function encryptStreamTo(recipients: readonly string[]): Promise<(plain: Bytes) => Promise<Bytes>> {
  const encrypter = await readRecipients(recipients)
  return (plain) => encrypter.encrypt(plain)
}

/** The beginning of each file that is not armored. */
export const AGE_MAGIC = 'age-encryption.org/v1\n'

/**
 * Decrypts a stream without armor, with the identities in the text of a file from age-keygen. The returned stream fails
 * if the input was changed or truncated. @throws DecryptError
 */
export async function decryptStreamBy(identities: string, sealed: Bytes): Promise<Bytes> {
  const { Decrypter } = await import('age-encryption')
  const decrypter = new Decrypter()
  const lines = identities.split(/\r?\n/).filter((line) => line.trim() !== '' && !line.startsWith('#'))
  if (lines.length === 0)
    throw new DecryptError('the file of the identity has none: a line that begins with AGE-SECRET-KEY-')
  try {
    for (const line of lines) decrypter.addIdentity(line.trim())
  } catch {
    // No cause, because its message may contain the identity.
    throw new DecryptError('the file of the identity has a line that is none; it may be encrypted itself')
  }
  try {
    return await decrypter.decrypt(sealed)
  } catch (error) {
    if (error instanceof Error && 'syscall' in error) throw error // the stream could not be read
    throw new DecryptError('none of the identities opens it, or it was changed')
  }
}

async function readRecipients(recipients: readonly string[]): Promise<Encrypter> {
  // Loaded on use, since no start of the server needs it.
  const { Encrypter } = await import('age-encryption')
  const encrypter = new Encrypter()
  for (const [at, recipient] of recipients.entries()) {
    if (recipients.indexOf(recipient) < at) throw new RecipientError(`The recipient ${recipient} is given twice.`)
    if (/^AGE-SECRET-KEY-/i.test(recipient)) {
      throw new RecipientError(
        'A recipient begins with age1. What was given is an identity, which is secret, and other users of this machine could read it in the list of processes: make another one with age-keygen.',
      )
    }
    try {
      encrypter.addRecipient(recipient)
      const alone = new Encrypter() // some unusable points of the curve are detected only here
      alone.addRecipient(recipient)
      await alone.encrypt(new Uint8Array())
    } catch {
      throw new RecipientError(
        `${recipient} is not a recipient of age, or was mistyped. Give it as age-keygen -y prints it: age1 and what follows`,
      )
    }
  }
  return encrypter
}
