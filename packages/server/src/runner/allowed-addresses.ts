/** Checks addresses against an allow-list, by Node's BlockList: it takes `::ffff:10.0.0.1` as 10.0.0.1. */
import { BlockList, isIP } from 'node:net'

/** Whether the address is on the list. */
export function isAllowed(list: readonly string[], address: string): boolean {
  const family = isIP(address)
  return family !== 0 && parseList(list).check(address, family === 4 ? 'ipv4' : 'ipv6')
}

// An allow-list is parsed once while its API key is cached.
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
