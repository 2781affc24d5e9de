/** Allow-lists of addresses and CIDR ranges, IPv4 and IPv6, by Node's BlockList: it takes `::ffff:10.0.0.1` as 10.0.0.1. */
import { BlockList, isIP } from 'node:net'

/** Whether the address is on the list. */
export function isAllowed(list: readonly string[], address: string): boolean {
  const family = isIP(address)
  return family !== 0 && parseList(list).check(address, family === 4 ? 'ipv4' : 'ipv6')
}

/** Whether the text is an address or a CIDR range without host bits, in its plain form. */
export function isAddressRange(text: string): boolean {
  const [address = '', prefix, ...rest] = text.split('/')
  const bits = { 0: 0, 4: 32, 6: 128 }[isIP(address)] ?? 0
  if (bits === 0 || address.includes('%') || rest.length > 0) return false
  if (prefix === undefined) return true
  if (!/^(?:0|[1-9]\d{0,2})$/.test(prefix) || Number(prefix) > bits) return false
  return !hasHostBits(address, Number(prefix))
}

// An allow-list is parsed once for as long as its API key is cached.
const parsed = new WeakMap<readonly string[], BlockList>()

function parseList(list: readonly string[]): BlockList {
  const known = parsed.get(list)
  if (known) return known
  const blockList = new BlockList()
  for (const range of list) {
    const [address = '', prefix] = range.split('/')
    const family = isIP(address) === 4 ? 'ipv4' : 'ipv6'
    if (prefix === undefined) blockList.addAddress(address, family)
    else blockList.addSubnet(address, Number(prefix), family)
  }
  parsed.set(list, blockList)
  return blockList
}

// The lowest address of a range is the range's own: any other way to write it hides what is allowed.
function hasHostBits(address: string, prefix: number): boolean {
  const bits = addressBits(address)
  return bits.slice(prefix).includes('1')
}

function addressBits(address: string): string {
  if (isIP(address) === 4)
    return address
      .split('.')
      .map((part) => Number(part).toString(2).padStart(8, '0'))
      .join('')
  const { hostname } = new URL(`http://[${address}]`) // canonical: groups in hexadecimal, one run of zeros as ::
  const [head = '', tail = ''] = hostname.slice(1, -1).split('::')
  const groups = (text: string) => (text === '' ? [] : text.split(':'))
  const [front, back] = [groups(head), groups(tail)]
  const zeros = Array.from({ length: 8 - front.length - back.length }, () => '0')
  return [...front, ...zeros, ...back].map((group) => Number.parseInt(group, 16).toString(2).padStart(16, '0')).join('')
}
