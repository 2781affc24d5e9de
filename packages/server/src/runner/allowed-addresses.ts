/**
 * Checks addresses against an allow-list, by Node's BlockList. `::ffff:10.0.0.1` is 10.0.0.1, in a list too.
 * IPv4 addresses are only on ranges of IPv4: BlockList alone would also find them in `::/0`, by which a user
 * means IPv6.
 */
import { BlockList, isIP } from 'node:net'

/** Whether the address is on the list. */
export function isAllowed(list: readonly string[], address: string): boolean {
  if (isIP(address) === 0) return false
  const { ipv4, ipv6 } = parseList(list)
  return (isIPv4(address) ? ipv4 : ipv6).check(address, familyOf(address))
}

interface Ranges {
  ipv4: BlockList
  ipv6: BlockList
}

// An allow-list is parsed once while its API key is cached.
const parsed = new WeakMap<readonly string[], Ranges>()

function parseList(list: readonly string[]): Ranges {
  const known = parsed.get(list)
  if (known) return known
  const ranges = { ipv4: new BlockList(), ipv6: new BlockList() }
  for (const range of list) {
    const [address = '', prefix] = range.split('/')
    const blockList = isIPv4(address) ? ranges.ipv4 : ranges.ipv6
    if (prefix === undefined) blockList.addAddress(address, familyOf(address))
    else blockList.addSubnet(address, Number(prefix), familyOf(address))
  }
  parsed.set(list, ranges)
  return ranges
}

const MAPPED = new BlockList()
MAPPED.addSubnet('::ffff:0:0', 96, 'ipv6')

function isIPv4(address: string): boolean {
  return familyOf(address) === 'ipv4' || MAPPED.check(address, 'ipv6')
}

function familyOf(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 4 ? 'ipv4' : 'ipv6'
}
