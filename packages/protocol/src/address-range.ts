/** Entries of an allow-list: addresses and CIDR ranges, IPv4 and IPv6. */

const BYTE = '(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])'
const V4 = `${BYTE}(?:\\.${BYTE}){3}`
const GROUP = '[0-9A-Fa-f]{1,4}'
const LAST = `(?:${GROUP}:${GROUP}|${V4})`
/** RFC 4291 section 2.2, without zones; `::` stands for at least one group. */
const V6 = [
  `(?:${GROUP}:){6}${LAST}`,
  ...[5, 4, 3, 2, 1, 0].map((after) => `${upTo(5 - after)}::(?:${GROUP}:){${after}}${LAST}`),
  `${upTo(6)}::${GROUP}`,
  `${upTo(7)}::`,
].join('|')

/** A valid entry. The OpenAPI document has the same pattern. */
export const ADDRESS_RANGE = new RegExp(
  `^(?:${V4}(?:/(?:3[0-2]|[12]?[0-9]))?|(?:${V6})(?:/(?:12[0-8]|1[01][0-9]|[1-9]?[0-9]))?)$`,
)
/** Invalid: by ::ffff:10.0.0.1/8 a user means 10.0.0.0/8, but it would allow a 256th of all IPv6 addresses. */
export const AROUND_MAPPED = new RegExp(
  `^(?:(?:(?:0{1,4}:){5}|(?:0{1,4}(?::0{1,4})*)?::(?:0{1,4}:)*)[Ff]{4}:${LAST}|(?:0{1,4}:){5}[Ff]{4}:(?::(?:${GROUP})?|${GROUP}::))/(?:[1-8]?[0-9]|9[0-5])$`,
)
const GROUP_BITS = 16
const MAPPED = `${'0'.repeat(80)}${'1'.repeat(16)}`

function upTo(groups: number): string {
  return groups === 0 ? '' : `(?:(?:${GROUP}:){0,${groups - 1}}${GROUP})?`
}

/**
 * Reads an address or a range; undefined for other text. Clears the bits beyond the prefix, so that the text shows what
 * it allows: `10.0.0.5/8` becomes `10.0.0.0/8`, as does the mapped `::ffff:10.0.0.0/104`.
 */
export function readAddressRange(text: string): string | undefined {
  if (!ADDRESS_RANGE.test(text) || AROUND_MAPPED.test(text)) return undefined
  const [address = '', prefix] = text.split('/')
  const bits = bitsOf(address)
  if (bits.startsWith(MAPPED)) {
    const mapped = addressOf(bits.slice(MAPPED.length))
    return prefix === undefined ? mapped : readAddressRange(`${mapped}/${Number(prefix) - MAPPED.length}`)
  }
  if (prefix === undefined) return text
  const network = bits.slice(0, Number(prefix)).padEnd(bits.length, '0')
  return network === bits ? text : `${addressOf(network)}/${prefix}`
}

function bitsOf(address: string): string {
  if (!address.includes(':'))
    return address
      .split('.')
      .map((byte) => binary(Number(byte), 8))
      .join('')
  const [front = [], back = []] = canonicalV6(address)
    .split('::')
    .map((part) => (part === '' ? [] : part.split(':')))
  const zeros = Array.from({ length: 8 - front.length - back.length }, () => '0')
  return [...front, ...zeros, ...back].map((group) => binary(Number.parseInt(group, 16), GROUP_BITS)).join('')
}

function addressOf(bits: string): string {
  if (bits.length === 32) return (bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)).join('.')
  const groups = (bits.match(/.{16}/g) ?? []).map((group) => Number.parseInt(group, 2).toString(16))
  return canonicalV6(groups.join(':'))
}

/** Writes an IPv6 address as the URL Standard does: groups in hexadecimal, the longest run of zeros as `::`. */
function canonicalV6(address: string): string {
  return new URL(`http://[${address}]`).hostname.slice(1, -1)
}

function binary(value: number, length: number): string {
  return value.toString(2).padStart(length, '0')
}
