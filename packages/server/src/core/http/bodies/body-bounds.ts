/**
 * Bounds the depth and the number of values of a JSON body while its bytes arrive, before it is parsed. Also counts its
 * members, since the parser keeps only the last of several with one name.
 */
import { Refusal } from '../../runner/refusal.js'

/** No body of the API is deeper than 4. */
const MAX_DEPTH = 32
/** A batch of 1,000 operations has some 7,000. */
const MAX_VALUES = 20_000

const QUOTE = 0x22
const COMMA = 0x2c
const COLON = 0x3a
const BACKSLASH = 0x5c
/** The first bytes of a string are checked one by one: only in longer strings does a search for the end cost less. */
const STRING_BYTES = 16
/** Brackets with the bit set that distinguishes `[` from `{` and `]` from `}`. */
const [OPENING, CLOSING, BRACE_BIT] = [0x7b, 0x7d, 0x20]

export interface StructureCount {
  add(bytes: Uint8Array): void
  members(): number
}

/** Called for each bracket outside of strings, with its index in the current bytes and its depth, from 1. */
type OnBracket = (byte: number, at: number, depth: number) => void

/** Creates the counter of one body. Counts a body that is not JSON as far as possible; the parser refuses it. */
export function createStructureCount(onBracket?: OnBracket): StructureCount {
  let depth = 0
  let values = 1
  let members = 0
  let inString = false
  let escaped = false

  function addByte(byte: number, at: number): void {
    if (byte === QUOTE) inString = true
    else if (byte === COMMA) values += 1
    else if (byte === COLON) members += 1
    else if ((byte | BRACE_BIT) === OPENING) {
      depth += 1
      values += 1
      if (depth > MAX_DEPTH) throw tooMuch(`the body is nested deeper than ${MAX_DEPTH}`)
      onBracket?.(byte, at, depth)
    } else if ((byte | BRACE_BIT) === CLOSING) {
      onBracket?.(byte, at, depth)
      depth -= 1
    }
  }

  /** Skips to the next quote, or to the end. The byte before `from` must be a plain one. */
  function skipString(bytes: Uint8Array, from: number): number {
    const quote = bytes.indexOf(QUOTE, from)
    const end = quote < 0 ? bytes.length : quote
    let plain = end
    while (plain > from && bytes[plain - 1] === BACKSLASH) plain--
    escaped = (end - plain) % 2 === 1
    return end
  }

  return {
    members: () => members,
    add(bytes) {
      let plain = 0
      for (let at = 0; at < bytes.length; at++) {
        const byte = bytes[at] ?? 0
        if (!inString) {
          addByte(byte, at)
          if (values > MAX_VALUES) throw tooMuch(`the body has more than ${MAX_VALUES} values`)
          plain = 0
        } else if (escaped) escaped = false
        else if (byte === BACKSLASH) escaped = true
        else if (byte === QUOTE) inString = false
        else if (++plain === STRING_BYTES) {
          at = skipString(bytes, at + 1) - 1
          plain = 0
        }
      }
    },
  }
}

function tooMuch(detail: string): Refusal {
  return new Refusal('E_MALFORMED_REQUEST', detail)
}
