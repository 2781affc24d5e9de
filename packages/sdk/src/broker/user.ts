/** Writes an end user's id as the service takes it: 1 to 255 visible ASCII characters without commas. */
import { encodeUtf8, isWellFormed } from '@eaas/protocol'
import { InvalidInputError } from '../errors.js'
import { kindOf } from '../input.js'

const MAX_NAME = 255
/**
 * A character that is not escaped. The percent sign is escaped, so that two ids never have the same encoding.
 */
const PLAIN = /^[\x21-\x24\x26-\x2b\x2d-\x7e]$/

/**
 * Writes a user's id as `eaas-on-behalf-of` takes it and as the audit log shows it. Visible ASCII stays as it
 * is; the UTF-8 bytes of all other characters, and of comma, blank and percent sign, are escaped like `%2C`.
 * `decodeURIComponent` gives the id back.
 *
 * @throws InvalidInputError when the id is not a string, is empty, has a lone surrogate, or is longer than
 * 255 characters when encoded
 */
export function encodeUserId(id: string): string {
  if (typeof id !== 'string' || id === '') {
    const got = id === '' ? 'empty text' : kindOf(id)
    throw refuse(`a user's id must be text that is not empty, got ${got}`)
  }
  if (!isWellFormed(id)) throw refuse("a user's id must not contain a lone surrogate")
  const name = Array.from(id, (character) => (PLAIN.test(character) ? character : percentEncode(character))).join('')
  if (name.length > MAX_NAME) throw refuse(`a user's id must be at most ${MAX_NAME} characters when encoded`)
  return name
}

function refuse(message: string): InvalidInputError {
  const hint = '`authenticate` must return the user, an object with an `id`, or undefined if nobody is logged in.'
  return new InvalidInputError(message, hint)
}

function percentEncode(character: string): string {
  return Array.from(encodeUtf8(character), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('')
}
