/** The end user that a caller acts for: each audit entry of the call names it. */

/** The request header that names the end user; using it needs the permission `audit:on_behalf_of`. */
export const ON_BEHALF_OF_HEADER = 'eaas-on-behalf-of'

/**
 * Whether the header may hold this text. A comma is not allowed, because servers join repeated headers with
 * commas.
 */
export function isOnBehalfOf(text: string): boolean {
  return /^[\x21-\x2b\x2d-\x7e]{1,255}$/.test(text)
}
