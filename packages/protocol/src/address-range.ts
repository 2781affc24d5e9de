/** Entries of an allow-list: addresses and CIDR ranges, IPv4 and IPv6. */

const BYTE = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)'
const V4 = new RegExp(`^${BYTE}(?:\\.${BYTE}){3}$`)
const PREFIX = /^(?:0|[1-9]\d{0,2})$/
const GROUP_BITS = 16
/** The bits that an IPv4 address mapped into IPv6 begins with: `::ffff:`. */
const MAPPED = `${'0'.repeat(80)}${'1'.repeat(16)}`

/**
 * Reads an address or a range. Clears the bits beyond the prefix, so that the text shows what is allowed:
 * `10.0.0.5/8` becomes `10.0.0.0/8`. Writes an IPv4 address or range that is mapped into IPv6 as IPv4:
 * `::ffff:10.0.0.0/104` becomes `10.0.0.0/8`. Keeps all other text as it is written. Returns undefined if the text is
 * neither.
 */
export function readAddressRange(text: string): string | undefined {
  const [address = '', prefix, ...rest] = text.split('/')
  const bits = bitsOf(address)
  if (bits === undefined || rest.length > 0) return undefined
  if (prefix !== undefined && (!PREFIX.test(prefix) || Number(prefix) > bits.length)) return undefined
  if (bits.startsWith(MAPPED)) {
    const mapped = addressOf(bits.slice(MAPPED.length))
    if (prefix === undefined) return mapped
    // A user who writes ::ffff:10.0.0.1/8 means 10.0.0.0/8, but would allow ::/8, a 256th of all IPv6
    // addresses.
    if (Number(prefix) < MAPPED.length) return undefined
    return readAddressRange(`${mapped}/${Number(prefix) - MAPPED.length}`)
  }
  if (prefix === undefined) return text
  const network = bits.slice(0, Number(prefix)).padEnd(bits.length, '0')
  return network === bits ? text : `${addressOf(network)}/${prefix}`
}

function bitsOf(address: string): string | undefined {
  if (V4.test(address))
    return address
      .split('.')
      .map((byte) => binary(Number(byte), 8))
      .join('')
  if (!/^[0-9a-f:.]+$/i.test(address) || !address.includes(':')) return undefined
  const hostname = canonicalV6(address)
  if (hostname === undefined) return undefined
  const [front = [], back = []] = hostname.split('::').map((part) => (part === '' ? [] : part.split(':')))
  const zeros = Array.from({ length: 8 - front.length - back.length }, () => '0')
  return [...front, ...zeros, ...back].map((group) => binary(Number.parseInt(group, 16), GROUP_BITS)).join('')
}

function addressOf(bits: string): string {
  if (bits.length === 32) return (bits.match(/.{8}/g) ?? []).map((byte) => Number.parseInt(byte, 2)).join('.')
  const groups = (bits.match(/.{16}/g) ?? []).map((group) => Number.parseInt(group, 2).toString(16))
  return canonicalV6(groups.join(':')) ?? ''
}

/**
 * Writes an IPv6 address as the URL Standard does: groups in hexadecimal, the longest run of zeros as `::`.
 */
function canonicalV6(address: string): string | undefined {
  try {
    return new URL(`http://[${address}]`).hostname.slice(1, -1)
  } catch {
    return undefined
  }
}

function binary(value: number, length: number): string {
  return value.toString(2).padStart(length, '0')
}
