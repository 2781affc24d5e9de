/** The end user that a caller acts for: each audit entry of the call names it. */
import { encodeUtf8 } from './bytes.js'

/** Using it needs the permission `audit:on_behalf_of`. */
export const ON_BEHALF_OF_HEADER = 'eaas-on-behalf-of'
/** What the header may hold. A comma is not allowed, because servers join repeated headers with commas. */
export const ON_BEHALF_OF = /^[\x21-\x2b\x2d-\x7e]{1,255}$/

export function isOnBehalfOf(text: string): boolean {
  return ON_BEHALF_OF.test(text)
}

/** A character that is not escaped. The percent sign is escaped, so that two ids never have the same form. */
const PLAIN = /^[\x21-\x24\x26-\x2b\x2d-\x7e]$/

/** The form in which brokers name an end user: all but visible ASCII, and comma and percent sign, are escaped like `%2C`. */
export function escapeUser(id: string): string {
  return Array.from(id, (character) => (PLAIN.test(character) ? character : percentEncode(character))).join('')
}

/** The forms in which the log may name an end user: as the caller stated it, and as a broker escapes it. */
export function formsOfUser(id: string): string[] {
  return [...new Set([id, escapeUser(id)])]
}

function percentEncode(character: string): string {
  return Array.from(encodeUtf8(character), (byte) => `%${byte.toString(16).toUpperCase().padStart(2, '0')}`).join('')
}
