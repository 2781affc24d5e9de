/** Text of others in a page or a file of CSV: applications choose names and users, and auditors open the file. Pure. */

/** Characters that are not seen, or show others in another order; lone surrogates too. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu

/** Writes such characters as in JSON, so that the text shows what it is. */
export function visible(text: string): string {
  return text.replace(UNSEEN, (character) => {
    const code = character.codePointAt(0) ?? 0
    const digits = code.toString(16).padStart(4, '0')
    return code > 0xffff ? `\\u{${digits}}` : `\\u${digits}`
  })
}
