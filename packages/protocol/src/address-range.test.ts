// The patterns of addresses and ranges, which the OpenAPI document has too, take what Node's parser of addresses takes.
import { BlockList, isIPv4, isIPv6 } from 'node:net'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { rounds } from '../../../test/support/run/rounds.js'
import { readAddressRange } from './address-range.js'

const MAPPED = new BlockList()
MAPPED.addSubnet('::ffff:0:0', 96, 'ipv6')

/** Whether a text is an address or a range, and none around mapped addresses. */
function isRange(text: string): boolean {
  const [address = '', prefix, ...rest] = text.split('/')
  if (rest.length > 0 || !(isIPv4(address) || isIPv6(address))) return false
  if (prefix === undefined) return true
  if (!/^(?:0|[1-9]\d*)$/.test(prefix) || Number(prefix) > (isIPv4(address) ? 32 : 128)) return false
  return isIPv4(address) || Number(prefix) >= 96 || !isMapped(address)
}

// By its text in the form of the URL Standard: a BlockList takes an IPv4 address and a mapped one for the same.
function isMapped(address: string): boolean {
  return new URL(`http://[${address}]`).hostname.startsWith('[::ffff:') && MAPPED.check(address, 'ipv6')
}

const groups = (...each: string[]) =>
  fc.array(fc.constantFrom(...each), { minLength: 2, maxLength: 9 }).map((parts) => parts.join(':'))
const zeros = (most: number) => fc.array(fc.constantFrom('0', '00', '0000'), { maxLength: most })
/** Mapped addresses in all forms, whole or almost. */
const mapped = fc
  .tuple(
    zeros(6),
    fc.boolean(),
    zeros(4),
    fc.constantFrom('ffff', 'FFFF', 'fff'),
    fc.constantFrom('1:2', '0:0', ':', ':1', '1::', '1.2.3.4', ':1.2.3.4', '::1', '1', '1:2:3'),
  )
  .map(([front, short, back, ffff, last]) =>
    [...front, ...(short ? [front.length === 0 ? ':' : ''] : []), ...back, ffff, last].join(':'),
  )
const address = fc.oneof(
  groups('0', '0000', 'ffff', 'FFFF', 'f', 'a00', '1', '12345', '', '1.2.3.4', '01.2.3.4', 'g'),
  groups('0', '0000', '', 'ffff', '1.2.3.4'),
  mapped,
  fc.ipV6(),
  fc.ipV4(),
  fc.constantFrom('1.2.3', '1.2.3.4.5', '256.1.1.1', '1.2.3.4\n', '', ' ::1', '::1 ', '[::1]', '١.2.3.4'),
)
const prefix = fc.oneof(
  fc.constant(''),
  fc.integer({ min: 0, max: 140 }).map((bits) => `/${bits}`),
  fc.constantFrom('/', '/01', '/-1', '/8/8', '/ 8', '/8\n', '/1e1'),
)

it('takes exactly what is an address or a range', () => {
  const seen = { taken: 0, aroundMapped: 0 }
  fc.assert(
    fc.property(address, prefix, (front, end) => {
      const text = front + end
      expect([text, readAddressRange(text) !== undefined]).toEqual([text, isRange(text)])
      if (isRange(text)) seen.taken += 1
      else if (isIPv6(front) && isMapped(front)) seen.aroundMapped += 1
    }),
    { numRuns: rounds(20_000, 1_000_000), seed: 20_261_129 },
  )
  expect(seen.taken).toBeGreaterThan(1_000)
  expect(seen.aroundMapped).toBeGreaterThan(100)
})
