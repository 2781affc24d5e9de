// Allow-lists of addresses: which texts are ranges, and which addresses are on them.

import { readAddressRange } from '@eaas/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isAllowed } from './admission.js'

describe('a range', () => {
  it.each([
    '10.0.0.1',
    '0.0.0.0',
    '255.255.255.255',
    '0.0.0.0/0',
    '10.0.0.0/8',
    '10.0.0.0/9',
    '10.128.0.0/9',
    '192.168.1.4/30',
    '10.0.0.1/32',
    '128.0.0.0/1',
    '::',
    '::1',
    '::/0',
    '::1/128',
    '2001:db8::1',
    '2001:DB8::1',
    '2001:db8::/32',
    '2001:db8:8000::/33',
    '2001:0db8:0000:0000:0000:0000:0000:0001',
    '8000::/1',
    'fe80::/10',
    '::10.0.0.1',
  ])('is %s', (text) => {
    expect(readAddressRange(text)).toBe(text)
  })

  it.each([
    ['10.0.0.5/8', '10.0.0.0/8'],
    ['10.0.0.1/31', '10.0.0.0/31'],
    ['10.128.0.0/8', '10.0.0.0/8'],
    ['255.255.255.255/0', '0.0.0.0/0'],
    ['2001:DB8::1/32', '2001:db8::/32'],
    ['2001:db8:8000::/32', '2001:db8::/32'],
    ['::1/127', '::/127'],
    ['ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/0', '::/0'],
  ])('with bits beyond its prefix is read without them: %s is %s', (text, range) => {
    expect(readAddressRange(text)).toBe(range)
  })

  it.each([
    ['::ffff:10.0.0.1', '10.0.0.1'],
    ['::FFFF:a00:1', '10.0.0.1'],
    ['0:0:0:0:0:ffff:10.0.0.1/128', '10.0.0.1/32'],
    ['::ffff:10.0.0.0/104', '10.0.0.0/8'],
    ['::ffff:a00:0/104', '10.0.0.0/8'],
    ['::ffff:10.0.0.5/104', '10.0.0.0/8'],
    ['::ffff:10.0.0.5/96', '0.0.0.0/0'],
    ['::ffff:0:0/96', '0.0.0.0/0'],
  ])('of IPv4 that is mapped into IPv6 is read as IPv4: %s is %s', (text, range) => {
    expect(readAddressRange(text)).toBe(range)
  })

  it.each([
    ['nothing', ''],
    ['a blank', ' '],
    ['a slash', '/'],
    ['a prefix alone', '/8'],
    ['an address with a slash behind', '10.0.0.0/'],
    ['two prefixes', '10.0.0.0/8/8'],
    ['a prefix above 32', '10.0.0.0/33'],
    ['an IPv6 prefix on IPv4', '0.0.0.0/128'],
    ['a prefix above 128', '::/129'],
    ['a prefix far above', '::/999'],
    ['a prefix of four digits', '::/1000'],
    ['a negative prefix', '10.0.0.0/-1'],
    ['a signed prefix', '10.0.0.0/+8'],
    ['a prefix with a zero in front', '10.0.0.0/08'],
    ['a prefix in hexadecimal', '10.0.0.0/0x8'],
    ['an exponent', '10.0.0.0/1e1'],
    ['a fraction', '10.0.0.0/8.0'],
    ['a prefix with a blank', '10.0.0.0/ 8'],
    ['a prefix with a line feed behind', '10.0.0.0/8\n'],
    ['a prefix in Arabic digits', '10.0.0.0/\u0668'],
    ['a netmask', '10.0.0.0/255.0.0.0'],
    ['an IPv4 address within IPv6 with the prefix of IPv4', '::ffff:10.0.0.1/8'],
    ['an IPv4 address within IPv6 without all of its mapping', '::ffff:0.0.0.0/95'],
    ['an octet with a zero in front', '010.0.0.1'],
    ['an octet in octal within a range', '010.0.0.0/8'],
    ['a mapped octet with a zero in front', '::ffff:010.0.0.1'],
    ['an octet in hexadecimal', '0x0a.0.0.1'],
    ['an octet above 255', '10.0.0.256'],
    ['three octets', '10.0.0'],
    ['five octets', '10.0.0.0.1'],
    ['one number', '167772161'],
    ['an octet missing', '10..0.1'],
    ['a full stop behind', '10.0.0.1.'],
    ['Arabic digits', '\u0661\u0660.0.0.1'],
    ['full-width digits', '\uff11\uff10.0.0.1'],
    ['a zone id', 'fe80::1%eth0'],
    ['a zone id on a range', 'fe80::%eth0/10'],
    ['a zone id behind a range', 'fe80::/10%eth0'],
    ['an empty zone id', 'fe80::1%'],
    ['two runs of zeros', '2001::db8::1'],
    ['a group of five digits', '2001:0db80::1'],
    ['nine groups', '1:2:3:4:5:6:7:8:9'],
    ['seven groups', '1:2:3:4:5:6:7'],
    ['a letter that is no digit', '2001:dbg::1'],
    ['brackets', '[::1]'],
    ['a port', '10.0.0.1:80'],
    ['a blank in front', ' 10.0.0.1'],
    ['a blank behind', '10.0.0.1 '],
    ['a line feed behind', '10.0.0.1\n'],
    ['a NUL behind', '10.0.0.1\0'],
    ['two addresses', '10.0.0.1,10.0.0.2'],
    ['a range with a dash', '10.0.0.1-10.0.0.9'],
    ['a star', '10.0.0.*'],
    ['a name', 'localhost'],
    ['any', '*'],
  ])('is not %s', (_, text) => {
    expect(readAddressRange(text)).toBeUndefined()
  })

  it('is every IPv4 address with any prefix, and all that is behind the prefix becomes zero', () => {
    fc.assert(
      fc.property(fc.nat({ max: 2 ** 32 - 1 }), fc.integer({ min: 0, max: 32 }), (address, prefix) => {
        const range = `${ipv4(network4(address, prefix))}/${prefix}`
        expect(readAddressRange(range)).toBe(range)
        expect(readAddressRange(`${ipv4(address)}/${prefix}`)).toBe(range)
        expect(readAddressRange(ipv4(address))).toBe(ipv4(address))
      }),
    )
  })

  it('is every IPv6 address with any prefix, and all that is behind the prefix becomes zero', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 2n ** 128n - 1n }), fc.integer({ min: 0, max: 128 }), (address, prefix) => {
        fc.pre(address >> 32n !== 0xffffn)
        const range = `${ipv6(network6(address, prefix))}/${prefix}`
        expect(readAddressRange(range)).toBe(range)
        const read = readAddressRange(`${ipv6(address)}/${prefix}`) ?? ''
        expect(new URL(`http://[${read.split('/')[0]}]`).hostname).toBe(
          new URL(`http://[${range.split('/')[0]}]`).hostname,
        )
        expect(read.split('/')[1]).toBe(`${prefix}`)
        expect(readAddressRange(ipv6(address).toUpperCase())).toBe(ipv6(address).toUpperCase())
      }),
    )
  })
})

describe('an address', () => {
  it.each([
    ['10.0.0.1', ['10.0.0.1']],
    ['10.0.0.1', ['192.168.0.0/16', '10.0.0.0/8']],
    ['10.255.255.255', ['10.0.0.0/8']],
    ['10.0.0.1', ['10.0.0.1/32']],
    ['10.0.0.1', ['0.0.0.0/0']],
    ['::ffff:10.0.0.1', ['10.0.0.0/8']],
    ['::FFFF:10.0.0.1', ['10.0.0.0/8']],
    ['::ffff:a00:1', ['10.0.0.0/8']],
    ['0:0:0:0:0:ffff:10.0.0.1', ['10.0.0.1']],
    ['10.0.0.1', ['::ffff:10.0.0.1']],
    ['10.0.0.1', ['::ffff:10.0.0.0/104']],
    ['10.0.0.1', ['::ffff:0.0.0.0/96']],
    ['::ffff:10.0.0.1', ['::ffff:10.0.0.0/104']],
    ['2001:db8::1', ['2001:db8::/32']],
    ['2001:DB8::1', ['2001:db8::1']],
    ['2001:db8::1', ['2001:DB8::/32']],
    ['2001:0db8:0:0:0:0:0:1', ['2001:db8::1']],
    ['2001:db8:7fff:ffff::', ['2001:db8::/33']],
    ['::1', ['::/0']],
    ['fe80::1%eth0', ['fe80::/10']],
    ['10.0.0.1', ['::/0', '::ffff:0:0/96']],
    ['::ffff:10.0.0.1', ['::/0', '0.0.0.0/0']],
  ] satisfies [string, string[]][])('%s is on the list %j', (address, list) => {
    expect(isAllowed(list, address)).toBe(true)
  })

  it.each([
    ['10.0.0.1', []],
    ['10.0.0.1', ['10.0.0.2']],
    ['10.0.0.10', ['10.0.0.1']],
    ['11.0.0.0', ['10.0.0.0/8']],
    ['9.255.255.255', ['10.0.0.0/8']],
    ['10.128.0.0', ['10.0.0.0/9']],
    ['10.0.0.2', ['10.0.0.1/32']],
    ['::ffff:11.0.0.1', ['10.0.0.0/8']],
    ['11.0.0.1', ['::ffff:10.0.0.0/104']],
    ['::a00:1', ['10.0.0.0/8']],
    ['::10.0.0.1', ['10.0.0.0/8']],
    ['64:ff9b::10.0.0.1', ['10.0.0.0/8']],
    ['2002:a00:1::', ['10.0.0.0/8']],
    ['2001:db8::1', ['0.0.0.0/0']],
    ['::1', ['127.0.0.1']],
    ['127.0.0.1', ['::1']],
    ['::1', ['::ffff:0.0.0.0/96']],
    ['2001:db9::', ['2001:db8::/32']],
    ['2001:db8:8000::', ['2001:db8::/33']],
    ['2001:db8::2', ['2001:db8::1/128']],
    ['10.0.0.1', ['::/0']],
    ['::ffff:10.0.0.1', ['::/0']],
    ['::ffff:a00:1', ['::/1', '::/80']],
    ['10.0.0.1', ['::fffe:0:0/95']],
    ['2001:db8::1', ['::ffff:0:0/96']],
    ['', ['0.0.0.0/0', '::/0']],
    ['unknown', ['0.0.0.0/0', '::/0']],
    ['010.0.0.1', ['0.0.0.0/0', '::/0']],
    ['10.0.0.1:80', ['0.0.0.0/0', '::/0']],
    ['[::1]', ['0.0.0.0/0', '::/0']],
    [' 10.0.0.1', ['0.0.0.0/0', '::/0']],
    ['10.0.0.1, 10.0.0.2', ['0.0.0.0/0', '::/0']],
    ['10.0.0.0/8', ['0.0.0.0/0', '::/0']],
    ['167772161', ['0.0.0.0/0', '::/0']],
    ['localhost', ['0.0.0.0/0', '::/0']],
  ] satisfies [string, string[]][])('%j is not on the list %j', (address, list) => {
    expect(isAllowed(list, address)).toBe(false)
  })

  it('is on a list of one IPv4 range exactly when their first bits agree', () => {
    const prefix = fc.integer({ min: 0, max: 32 })
    const flip = fc.integer({ min: 0, max: 31 })
    fc.assert(
      fc.property(fc.nat({ max: 2 ** 32 - 1 }), prefix, flip, fc.boolean(), (inside, prefix, bit, mapped) => {
        const range = `${ipv4(network4(inside, prefix))}/${prefix}`
        const near = (inside ^ (1 << bit)) >>> 0
        for (const address of [inside, near]) {
          const text = mapped ? `::ffff:${ipv4(address)}` : ipv4(address)
          expect(isAllowed([range], text), `${text} in ${range}`).toBe(
            network4(address, prefix) === network4(inside, prefix),
          )
        }
      }),
      { numRuns: 500 },
    )
  })

  it('is on a list of one IPv6 range exactly when their first bits agree', () => {
    const number = fc.bigInt({ min: 0n, max: 2n ** 128n - 1n })
    fc.assert(
      fc.property(number, fc.integer({ min: 0, max: 128 }), fc.integer({ min: 0, max: 127 }), (inside, prefix, bit) => {
        fc.pre(inside >> 32n !== 0xffffn)
        const range = `${ipv6(network6(inside, prefix))}/${prefix}`
        const near = inside ^ (1n << BigInt(bit))
        for (const address of [inside, near]) {
          expect(isAllowed([range], ipv6(address)), `${ipv6(address)} in ${range}`).toBe(
            network6(address, prefix) === network6(inside, prefix),
          )
        }
      }),
      { numRuns: 500 },
    )
  })

  it('is judged by the list as it is handed over, whichever was judged before', () => {
    const [open, closed] = [['0.0.0.0/0'], ['10.0.0.2']]
    for (const _ of [1, 2]) {
      expect(isAllowed(open, '10.0.0.1')).toBe(true)
      expect(isAllowed(closed, '10.0.0.1')).toBe(false)
    }
  })
})

function network4(address: number, prefix: number): number {
  return prefix === 0 ? 0 : (address & (-1 << (32 - prefix))) >>> 0
}

function ipv4(address: number): string {
  return [24, 16, 8, 0].map((shift) => (address >>> shift) & 255).join('.')
}

function network6(address: bigint, prefix: number): bigint {
  const shift = BigInt(128 - prefix)
  return (address >> shift) << shift
}

function ipv6(address: bigint): string {
  return Array.from({ length: 8 }, (_, at) => ((address >> BigInt(112 - 16 * at)) & 0xffffn).toString(16)).join(':')
}
