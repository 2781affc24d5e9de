/** The name of an end user as the service takes it: 1 to 255 visible ASCII characters without commas. */
import { encodeUtf8, isWellFormed } from '@eaas/protocol'
import { InvalidInputError } from '../errors.js'
import { kindOf } from '../input.js'

const MAX_NAME = 255
/** What stands for itself; the per cent sign does not, so that no two ids become one name. */
const PLAIN = /^[\x21-\x24\x26-\x2b\x2d-\x7e]$/

/**
 * Writes a user's id as `eaas-on-behalf-of` takes it, and as the audit log then shows it: the UTF-8 bytes of every other
 * character, of comma, blank and per cent sign too, as `%2C`. `decodeURIComponent` gives the id back.
 *
 * @throws InvalidInputError when the id is no text, is empty, has a lone surrogate, or is longer than 255 characters so
 */
export function encodeUserId(id: string): string {
  if (typeof id !== 'string' || id === '') {
    const got = id === '' ? 'empty text' : kindOf(id)
    throw refuse(`a user's id must be text that is not empty, got ${got}`)
  }
  if (!isWellFormed(id)) throw refuse("a user's id must hold no lone surrogate")
  const name = Array.from(id, (character) => (PLAIN.test(character) ? character : percentEncode(character))).join('')
  if (name.length > MAX_NAME) throw refuse(`a user's id must be at most ${MAX_NAME} characters, encoded`)
  return name
}

function refuse(message: string): InvalidInputError {
  const hint = '`authenticate` gives the user, an object with an `id`, and undefined where nobody is logged in.'
  return new InvalidInputError(message, hint)
}

function percentEncode(character: string): string {
  return Array.from(encodeUtf8(character), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('')
}
