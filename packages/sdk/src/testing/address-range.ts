/** Entries of an allow-list: addresses and CIDR ranges, v4 and v6. */

const BYTE = '(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)'
const V4 = new RegExp(`^${BYTE}(?:\\.${BYTE}){3}$`)

/** Whether the text is an address, or a range without host bits. */
export function isAddressRange(text: string): boolean {
  const [address = '', prefix, ...rest] = text.split('/')
  const bits = bitsOf(address)
  if (bits === undefined || rest.length > 0) return false
  if (prefix === undefined) return true
  if (!/^(?:0|[1-9]\d{0,2})$/.test(prefix) || Number(prefix) > bits.length) return false
  return !bits.slice(Number(prefix)).includes('1')
}

function bitsOf(address: string): string | undefined {
  if (V4.test(address))
    return address
      .split('.')
      .map((byte) => binary(Number(byte), 8))
      .join('')
  if (!/^[0-9a-f:.]+$/i.test(address) || !URL.canParse(`http://[${address}]`)) return undefined
  const { hostname } = new URL(`http://[${address}]`) // canonical: groups in hexadecimal, one run of zeros as ::
  const [front = [], back = []] = hostname
    .slice(1, -1)
    .split('::')
    .map((part) => (part === '' ? [] : part.split(':')))
  const zeros = Array.from({ length: 8 - front.length - back.length }, () => '0')
  return [...front, ...zeros, ...back].map((group) => binary(Number.parseInt(group, 16), 16)).join('')
}

function binary(value: number, length: number): string {
  return value.toString(2).padStart(length, '0')
}
