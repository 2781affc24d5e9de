/**
 * Encrypts to recipients of age (age-encryption.org/v1), armored, so that any age tool opens it. Nothing here
 * decrypts: identities stay with their owners.
 */

/** Thrown when a recipient is none; the message says what to give. */
export class RecipientError extends Error {
  override readonly name = 'RecipientError'
}

/** Encrypts bytes, which stay the caller's, to a text of lines. */
export type Encrypt = (bytes: Uint8Array) => Promise<string>

/**
 * Reads recipients, at least one, before anything is made for them.
 *
 * @throws RecipientError if one is malformed, or given twice
 */
export async function encryptTo(recipients: readonly string[]): Promise<Encrypt> {
  // Loaded where it is used: no start of the server needs it.
  const { armor, Encrypter } = await import('age-encryption')
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
      const alone = new Encrypter() // some points of the curve are found unusable only then
      alone.addRecipient(recipient)
      await alone.encrypt(new Uint8Array())
    } catch {
      throw new RecipientError(
        `${recipient} is not a recipient of age, or was mistyped. Give it as age-keygen -y prints it: age1 and what follows`,
      )
    }
  }
  return async (bytes) => armor.encode(await encrypter.encrypt(new Uint8Array(bytes)))
}
