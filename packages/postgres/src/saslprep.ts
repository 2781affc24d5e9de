/** SASLprep (RFC 4013) of passwords as PostgreSQL does it on both sides of SCRAM (its `pg_saslprep`). */

/** Table C.1.2 of RFC 3454, with U+200B, which is also in B.1: PostgreSQL maps it to a blank. */
const OTHER_SPACES = /[\u{a0}\u{1680}\u{2000}-\u{200b}\u{202f}\u{205f}\u{3000}]/gu
/** Table B.1: commonly mapped to nothing. Alternatives, since a class of them would hold joiners. */
const NOTHING = /\u{ad}|\u{34f}|\u{1806}|[\u{180b}-\u{180d}]|\u{200c}|\u{200d}|\u{2060}|[\u{fe00}-\u{fe0f}]|\u{feff}/gu
// biome-ignore lint/suspicious/noControlCharactersInRegex: ASCII has them
const ASCII = /^[\u{0}-\u{7f}]*$/u

/** The password to hash. It is unchanged if RFC 4013 would refuse it, since PostgreSQL then hashes it as typed. */
export function saslPrep(password: string): string {
  if (ASCII.test(password)) return password
  const mapped = password.replace(OTHER_SPACES, ' ').replace(NOTHING, '')
  // RFC 4013 checks the result of NFKC; PostgreSQL checks the text before that.
  return mapped === '' || PROHIBITED.test(mapped) || mixesDirections(mapped) ? password : mapped.normalize('NFKC')
}

/** RFC 3454 6: a text with a right-to-left letter has no left-to-right ones, and begins and ends with a right-to-left one. */
function mixesDirections(text: string): boolean {
  if (!RIGHT_TO_LEFT.test(text)) return false
  const characters = [...text]
  return LEFT_TO_RIGHT.test(text) || ![characters[0], characters.at(-1)].every((end = '') => RIGHT_TO_LEFT.test(end))
}

// Tables of RFC 3454 (stringprep, Unicode 3.2), made with Python's module `stringprep`. Each range is its distance from
// the previous one and, if it has several code points, the number after its first; both in base 36.

/** RFC 4013 2.3 and 2.5: tables C.1.2, C.2 to C.9, and A.1, the code points that Unicode 3.2 does not assign. */
const PROHIBITED = readRanges(`
  0-v 2n-x ao i-r 2m-1 1r-g 1s-1 e-f g-3 2-3 1-2 1-4 7 1 k 18 13-8 3r 1z 12-1 2-5 g-w 12-1 7 13 2-5 h n a-a r-4
  5-m 1-d 1-2 1 q-4 m-9 3h g-1 f e-1 t-2 r-1g 1e-9a 3 1h-1 i-1 5-2 p-f 3 8-1 2-1 m 7 1-2 4-1 1 7-1 2-1 3-8 1-3 2
  5-1 l-6 1-1 6-3 2-1 m 7 2 2 2-1 1 5-3 2-1 3-a 4 1-6 f-b 3 7 1 3 m 7 2 5-1 a 3 3-1 1-e 1-4 a-g 3 8-1 2-1 m 7 2-1
  4-1 8-2 2-1 3-7 2-3 2 3-3 b-g 2 6-2 3 4-2 2 1 2-2 2-2 3-2 8 3-3 5-2 3 4-8 1-e c-d 3 8 3 n a 5-3 7 3 4-6 2-8 2-3
  a-h 2 8 3 n a 5-3 7 3 4-6 2-6 1 2-3 a-h 2 8 3 n g-3 6-1 3 4-8 1-7 2-3 a-h 2 i-2 o 9 1-1 7-2 1-3 6 1 8-h 3-b 1m-3
  t-10 2 1-1 2 1-1 1-5 4 7 3 1 1-1 2 d 3-1 5 1 6-1 a-1 2-x 20 y-5 r-3 8 10 f-1 1-1b y 5 2 7-2 4-5 q-1x 12-9 15-1
  1-3 2i-4 1w-4 2a-5 7 1r 1 4-1 7 1 4-1 13 1 4-1 v 1 4-1 7 1 4-1 7 7 n v 1 4-1 7 13 j-5 s-y 2d-b hi-9 s-2 29-e d
  7-a n-8 k-b d 3 2-b 2l-2 a-l e-1 a-5 2g-7 16-11x 4c-3 2i-5 m-1 6-1 12-1 6-1 8 1 1 1 v-1 1h f e-1 6 j-1 3 9-g o-7
  z-3 1-n 2-1 r-g i-t r-k 1n-1 f-6 1d-b fz-1c 13-o b-k 4f 7o-1 2 2t-1 a-3a 4 4-1 s z 1 4-2 1 7-1 1g-2 o e-g s-3
  ls-ov q 2h-b 5y-16 1r 2e-1 2v-4 14-3 2m 14-1j 19-2 10-c 17-2 25-3 1b 3b-3 2r-1 v 52u-21 g4m-2h wd-2 1j-1fc
  8mc-6l7 8e-1 1n-44 7-b 5-4 q 5 1 2 2 30-w a5-f 1s-1 1i-13 d-2 g-f 4-b n-1 a j 4-3 5 3r-3 5a-2 6-1 6-1 6-1 3-2 7
  7-ls v 4-b r-50 12-1 12-148h 6u-9 13-2 21-7 2r-f5 2d 1z 2-1 1-1 2-1 4 c 1 4 2 1t 4-1 8 7 s 4 5 1-2 7 9e-3 82-3
  1e-7wf wyf-g14 f2-jp41`)

/** Table D.1: right-to-left letters. */
const RIGHT_TO_LEFT = readRanges(`
  14u 1 2 c-q 5-4 12 3 1-p 5-a y-2 1-2s 7 7-1 j-4 1-d 2 1-q 2b-11 b 4t9 179p 1-9 1-c 1-4 1 1-1 1-1 1-2z x-a2 i-1r
  2-1h 14-c 37-4 1-3q`)

/** Table D.2: left-to-right letters. */
const LEFT_TO_RIGHT = readRanges(`
  1t-p 6-p 1b a 4 5-m 1-u 1-88 1-h s-2l 2-8 2-6 e-1 e-4 9 3v b 1-2 1 1-j 1-17 1-11 a-3m 7-1w 1-11 2-1 6-f x-11 2-6
  1-12 1 op 1-1g 3-3 8-3 3 7-9 2-c h-1 1-7 2-1 2-l 1-6 1 3-3 4-2 6-1 2-1 a 4-1 1-2 4-b 2-6 a-5 4-1 2-l 1-6 1-1 1-1
  1-1 4-2 o-3 1 7-9 2-2 e 1-6 1 1-2 1-l 1-6 1-1 1-4 3-3 8 1-1 3 f 5-9 i-1 1-7 2-1 2-l 1-6 1-1 2-3 3-1 1 6-1 2-1 a
  4-1 1-2 4-a i 1-5 3-2 1-3 3-1 1 1-1 3-1 3-2 3-7 1-2 4-1 1-1 3-2 1-2 a f-b e-2 1-7 1-2 1-m 1-9 1-4 7-3 r-1 4-9
  i-1 1-7 1-2 1-m 1-9 1-4 4 1-4 2-1 1-1 9-1 7 1-1 4-9 i-1 1-7 1-2 1-m 1-f 4-2 5-2 1-2 a 8-1 4-9 i-1 1-h 3-n 1-8 1
  2-6 8-2 6-7 i-2 c-1b 1-1 c-6 8-c 11-1 1 2-1 1 2 6-3 1-6 1-2 1 1 2-1 1-3 1-1 9 2-4 1 9-9 2-1 y-n 2-q 1 1 5-9 1-x
  k 5 2-3 1e-7 1-5 2 1c-x 1-4 1-1 1 4 6 7-n 20-11 a-14 2 4-2h 5-1v 5-29 6-6 1-1q 1 1-3 2-6 1 1-3 2-12 1 1-3 2-u 1
  1-3 2-6 1 1-3 2-6 1-6 1-m 1-u 1 1-3 2-6 1-12 1-i 6-r z-2c c-hh a-p 5-28 f-c 1-3 e-h 3-1 9-h e-c 1-2 f-1i 7-7 1-1
  b-6 1 3-9 12-9 6-2f 8-14 11z-4b 4-2h 6-l 2-5 2-11 2-5 2-7 1 1 1 1-u 2-1g 1-6 1 3-2 1-6 3-3 2-5 4-c 5-2 1-6 h 2q
  d 3m 4 2-9 1 3-4 6 1 1 1-3 1-2 1-6 3-2 5-4 m-z c2-1w q 7a-25 26z-2 p-8 7-4 2-4 4-2d 6-2 1-2h 1-3 5-13 4-2l 1-13
  1k-18 3-z s-r 3-1d f-b 4-1a 1-3a 4-2q 2-u 1-52t 22-g4l 2i-wc 1gz-8mb 2k-6r1 2-1m 45-6 c-4 sp-p 6-p b-2g 3-5 2-5
  2-5 2-2 mb-u 1-3 c-q 51-11 2-11 148i-6t a-12 3-1o 3-8 g-1 7-t 4-1b f6-2c 1-1y 1-1 2 2-1 2-3 1-b 1 1-3 1-1 1-1s
  1-3 2-7 1-6 1-r 1-3 1-4 1 3-6 1-9d 4-81 7xy-wye g15-f1 gvz6-1ekd 2-1ekd`)

/** Compiles ranges to an expression that finds a character in them. */
function readRanges(text: string): RegExp {
  let next = 0
  const classes = text
    .trim()
    .split(/\s+/)
    .map((range) => {
      const [gap = '', more = '0'] = range.split('-')
      const first = next + Number.parseInt(gap, 36)
      const last = first + Number.parseInt(more, 36)
      next = last + 1
      return `\\u{${first.toString(16)}}-\\u{${last.toString(16)}}`
    })
  return new RegExp(`[${classes.join('')}]`, 'u')
}
