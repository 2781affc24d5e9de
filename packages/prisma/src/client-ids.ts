/** Generates the ids of `@default` in the form of Prisma's client, which would generate them after a row is sealed. */

const LOWER = '0123456789abcdefghijklmnopqrstuvwxyz'
const LETTERS = LOWER.slice(10)
/** The alphabets of nanoid, and of ulid (Crockford's base 32). */
const URL_SAFE = `${LOWER}${LETTERS.toUpperCase()}_-`
const CROCKFORD = '0123456789ABCDEFGHJKMNPQRSTVWXYZ'

const CUID_RANDOM = 16
const CUID2_LENGTH = 24
const NANOID_LENGTH = 21
const ULID_TIME = 10
const ULID_RANDOM = 16

/** Returns the generator of a default, such as `uuid(7)`; undefined for a default of another kind. */
export function findClientDefault(name: string, argument: string): (() => string) | undefined {
  if (name === 'uuid') return argument === '7' ? uuid7 : () => crypto.randomUUID()
  if (name === 'cuid') return argument === '2' ? cuid2 : cuid
  if (name === 'nanoid') return () => random(URL_SAFE, Number(argument || NANOID_LENGTH))
  return name === 'ulid' ? ulid : undefined
}

/** Draws characters of an alphabet with equal probability. */
function random(alphabet: string, length: number): string {
  const limit = 256 - (256 % alphabet.length)
  let text = ''
  while (text.length < length) {
    for (const byte of crypto.getRandomValues(new Uint8Array(length))) {
      if (byte < limit && text.length < length) text += alphabet[byte % alphabet.length]
    }
  }
  return text
}

/** Uses random characters in place of the counter and the fingerprint of the machine. */
function cuid(): string {
  return `c${Date.now().toString(36).padStart(8, '0')}${random(LOWER, CUID_RANDOM)}`
}

function cuid2(): string {
  return random(LETTERS, 1) + random(LOWER, CUID2_LENGTH - 1)
}

function ulid(): string {
  const time = [...Date.now().toString(32).padStart(ULID_TIME, '0')].map((digit) => CROCKFORD[parseInt(digit, 32)])
  return time.join('') + random(CROCKFORD, ULID_RANDOM)
}

/** RFC 9562, 5.7: a random UUID with the time in front and another version. */
function uuid7(): string {
  const time = Date.now().toString(16).padStart(12, '0')
  return `${time.slice(0, 8)}-${time.slice(8)}-7${crypto.randomUUID().slice(15)}`
}
