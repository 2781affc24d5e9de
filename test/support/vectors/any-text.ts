// Texts of any Unicode characters, for property tests.
import fc from 'fast-check'

const SURROGATES = { first: 0xd800, count: 0x800 }

/**
 * Any character, as fast-check's unit `binary`, which makes a table of all 1.1 million characters in each process: a second of CPU time.
 */
export const ANY_CHARACTER: fc.Arbitrary<string> = fc
  .nat({ max: 0x10ffff - SURROGATES.count })
  .map(characterOf, numberOf)

function characterOf(number: number): string {
  return String.fromCodePoint(number < SURROGATES.first ? number : number + SURROGATES.count)
}

/** @throws for anything but a character, as fast-check has it */
function numberOf(text: unknown): number {
  const codePoint = typeof text === 'string' ? text.codePointAt(0) : undefined
  if (codePoint === undefined || String.fromCodePoint(codePoint) !== text) throw new Error('not one character')
  return codePoint < SURROGATES.first ? codePoint : codePoint - SURROGATES.count
}
