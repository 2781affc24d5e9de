/** SASLprep (RFC 4013) of passwords as PostgreSQL does it on both sides of SCRAM (its `pg_saslprep`). */
import { LEFT_TO_RIGHT, PROHIBITED, RIGHT_TO_LEFT } from './stringprep-tables.js'

/** Table C.1.2 of RFC 3454. PostgreSQL maps U+200B, which is in both tables, to a blank. */
const OTHER_SPACES = /[\u{a0}\u{1680}\u{2000}-\u{200b}\u{202f}\u{205f}\u{3000}]/gu
/** Table B.1: commonly mapped to nothing. Alternatives, since a class of them would hold joiners. */
const NOTHING = /\u{ad}|\u{34f}|\u{1806}|[\u{180b}-\u{180d}]|\u{200c}|\u{200d}|\u{2060}|[\u{fe00}-\u{fe0f}]|\u{feff}/gu
// biome-ignore lint/suspicious/noControlCharactersInRegex: ASCII has them
const ASCII = /^[\u{0}-\u{7f}]*$/u

/** Returns the password that is hashed: unchanged where RFC 4013 would refuse it, as PostgreSQL then hashes what was typed. */
export function saslPrep(password: string): string {
  if (ASCII.test(password)) return password
  const mapped = password.replace(OTHER_SPACES, ' ').replace(NOTHING, '')
  // RFC 4013 has the result of NFKC checked; PostgreSQL checks what goes into it.
  return mapped === '' || PROHIBITED.test(mapped) || mixesDirections(mapped) ? password : mapped.normalize('NFKC')
}

/** RFC 3454 6: a text with a letter from right to left has no other letters, and begins and ends with such a letter. */
function mixesDirections(text: string): boolean {
  if (!RIGHT_TO_LEFT.test(text)) return false
  const characters = [...text]
  return LEFT_TO_RIGHT.test(text) || ![characters[0], characters.at(-1)].every((end = '') => RIGHT_TO_LEFT.test(end))
}
