// Texts of any Unicode characters, and entries of such texts, for property tests.
import fc from 'fast-check'
import type { AuditEntry } from '../../../packages/audit/src/formats/chain.js'

const SURROGATES = { first: 0xd800, count: 0x800 }

/**
 * Any character, like fast-check's unit `binary`, but without its table of all 1.1 million characters: a second of
 * CPU time in each process.
 */
export const ANY_CHARACTER: fc.Arbitrary<string> = fc
  .nat({ max: 0x10ffff - SURROGATES.count })
  .map(characterOf, numberOf)

export const ANY_TEXT = fc.string({ unit: ANY_CHARACTER })

export const ANY_ENTRY: fc.Arbitrary<AuditEntry> = fc.record({
  tenant_id: ANY_TEXT,
  id: fc.nat(),
  action: ANY_TEXT.map((name) => name as AuditEntry['action']),
  key_id: fc.option(ANY_TEXT),
  key_version: fc.option(fc.nat()),
  actor: ANY_TEXT,
  ip_address: fc.option(ANY_TEXT),
  metadata: fc.option(ANY_TEXT),
  created_at: ANY_TEXT,
})

function characterOf(number: number): string {
  return String.fromCodePoint(number < SURROGATES.first ? number : number + SURROGATES.count)
}

/** @throws for anything but a character, as fast-check does */
function numberOf(text: unknown): number {
  const codePoint = typeof text === 'string' ? text.codePointAt(0) : undefined
  if (codePoint === undefined || String.fromCodePoint(codePoint) !== text) throw new Error('not one character')
  return codePoint < SURROGATES.first ? codePoint : codePoint - SURROGATES.count
}
