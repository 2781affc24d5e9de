/**
 * HKDF-SHA-256 (RFC 5869) in JavaScript, for pages without WebCrypto, which have no other. Its time does not depend on the bytes: SHA-256
 * only adds, shifts and combines words.
 */

const BLOCK_BYTES = 64
const HASH_BYTES = 32

const PRIMES = findPrimes(64)
/** FIPS 180-4, section 4.2.2: of the cube roots of the first 64 primes. */
const ROUND = PRIMES.map((prime) => fraction(Math.cbrt(prime)))
/** FIPS 180-4, section 5.3.3: of the square roots of the first eight. */
const INITIAL = PRIMES.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)))

function findPrimes(count: number): number[] {
  const primes: number[] = []
  for (let number = 2; primes.length < count; number++) {
    if (primes.every((prime) => number % prime !== 0)) primes.push(number)
  }
  return primes
}

/** The first 32 bits of the fraction. None of the roots is so near to another 32 bits that a platform's rounding could matter. */
function fraction(root: number): number {
  return Math.floor((root % 1) * 2 ** 32)
}

/** Derives `length` bytes from a key, with an empty salt. The caller zeroes them. */
export function hkdfSha256(ikm: Uint8Array, info: Uint8Array, length: number): Uint8Array {
  const prk = hmacSha256(new Uint8Array(HASH_BYTES), ikm)
  const okm = new Uint8Array(length)
  let block: Uint8Array = new Uint8Array(0)
  for (let at = 0; at < length; at += HASH_BYTES) {
    block = hmacSha256(prk, Uint8Array.of(...block, ...info, at / HASH_BYTES + 1))
    okm.set(block.subarray(0, length - at), at)
  }
  prk.fill(0)
  block.fill(0)
  return okm
}

/** RFC 2104, for keys of at most one block. */
function hmacSha256(key: Uint8Array, message: Uint8Array): Uint8Array {
  const pad = (byte: number) => Uint8Array.from({ length: BLOCK_BYTES }, (_, at) => (key[at] ?? 0) ^ byte)
  return sha256(Uint8Array.of(...pad(0x5c), ...sha256(Uint8Array.of(...pad(0x36), ...message))))
}

/** FIPS 180-4, section 6.2. Zeroes the message, which is a copy that holds a key. */
export function sha256(message: Uint8Array): Uint8Array {
  const state = Uint32Array.from(INITIAL)
  const padded = new Uint8Array(Math.ceil((message.length + 9) / BLOCK_BYTES) * BLOCK_BYTES)
  padded.set(message)
  padded[message.length] = 0x80
  message.fill(0)
  const view = new DataView(padded.buffer)
  view.setUint32(padded.length - 4, message.length * 8) // messages here are short
  const words = new Uint32Array(64)
  for (let start = 0; start < padded.length; start += BLOCK_BYTES) {
    for (let at = 0; at < 64; at++) {
      words[at] = at < 16 ? view.getUint32(start + at * 4) : nextWord(words, at)
    }
    addBlock(state, words)
  }
  padded.fill(0)
  words.fill(0)
  const hash = new Uint8Array(HASH_BYTES)
  for (const [at, word] of state.entries()) new DataView(hash.buffer).setUint32(at * 4, word)
  return hash
}

function nextWord(words: Uint32Array, at: number): number {
  const [a, b, c, d] = [wordAt(words, at - 15), wordAt(words, at - 2), wordAt(words, at - 16), wordAt(words, at - 7)]
  return (rotate(a, 7) ^ rotate(a, 18) ^ (a >>> 3)) + (rotate(b, 17) ^ rotate(b, 19) ^ (b >>> 10)) + c + d
}

function addBlock(state: Uint32Array, words: Uint32Array): void {
  let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = state
  for (let at = 0; at < 64; at++) {
    const one =
      h + (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + ((e & f) ^ (~e & g)) + wordAt(ROUND, at) + wordAt(words, at)
    const two = (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))
    ;[h, g, f, e, d, c, b, a] = [g, f, e, (d + one) | 0, c, b, a, (one + two) | 0]
  }
  for (const [at, word] of [a, b, c, d, e, f, g, h].entries()) state[at] = wordAt(state, at) + word
}

function rotate(word: number, bits: number): number {
  return (word >>> bits) | (word << (32 - bits))
}

function wordAt(words: ArrayLike<number>, at: number): number {
  return words[at] ?? 0
}
