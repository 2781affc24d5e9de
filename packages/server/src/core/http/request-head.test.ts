// The caller's address, as it is compared with allow-lists and written to the log: one form for one caller.
import { isIP } from 'node:net'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isAllowed } from '../runner/admission.js'
import { clientAddress } from './request-head.js'

describe("the caller's address", () => {
  it.each([
    ['127.0.0.1', '127.0.0.1'],
    ['::ffff:10.0.0.1', '10.0.0.1'],
    ['::FFFF:10.0.0.1', '10.0.0.1'],
    ['::1', '::1'],
    ['2001:db8::1', '2001:db8::1'],
    ['fe80::1%eth0', 'fe80::1'],
    ['fe80::1%25', 'fe80::1'],
    ['fe80::1%', 'fe80::1'],
    ['::ffff:10.0.0.1%eth0', '10.0.0.1'],
    ['203.0.113.5:4711', '203.0.113.5'],
    ['[2001:db8::1]:4711', '2001:db8::1'],
    ['[2001:db8::1]', '2001:db8::1'],
    ['[::ffff:10.0.0.1]:4711', '10.0.0.1'],
  ])('%s is %s', (address, plain) => {
    expect(clientAddress(address)).toBe(plain)
  })

  it.each([
    ['an IPv4-compatible address, which is another thing', '::10.0.0.1'],
    ['a translated address', '64:ff9b::10.0.0.1'],
  ])('is left as it is: %s', (_, address) => {
    expect(clientAddress(address)).toBe(address)
  })

  it.each([
    ['a mapped address with something behind', '::ffff:10.0.0.1x'],
    ['a mapped address with something in front', 'x::ffff:10.0.0.1'],
    ['an address with what is no port', '10.0.0.1:http'],
    ['an IPv4 address in brackets', '[10.0.0.1]:80'],
    ['an address in brackets with something behind', '[::1]x'],
    ['an address in two pairs of brackets', '[[::1]]'],
    ['a list', '10.0.0.1, 10.0.0.2'],
    ['what a proxy says of a caller that it does not know', 'unknown'],
    ['nothing', ''],
  ])('is unknown, and so never anything else in the log: %s', (_, address) => {
    expect(clientAddress(address)).toBe('unknown')
  })

  it.each(['unknown', '', '10.0.0.1:x', '[::1', '::ffff:999.0.0.1', '::ffff:010.0.0.1', '10.0.0.1, 10.0.0.2'])(
    'is on no allow-list when it is no address: %j',
    (address) => {
      expect(isAllowed(['0.0.0.0/0', '::/0'], clientAddress(address))).toBe(false)
    },
  )

  it('of an IPv4 caller is the same on a dual-stack socket, and judged alike', () => {
    fc.assert(
      fc.property(fc.ipV4(), (address) => {
        expect(clientAddress(address)).toBe(address)
        expect(clientAddress(`::ffff:${address}`)).toBe(address)
        expect(isAllowed([address], clientAddress(`::ffff:${address}`))).toBe(true)
      }),
    )
  })

  it('stays an address, and is plain once and for all', () => {
    fc.assert(
      fc.property(fc.oneof(fc.ipV4(), fc.ipV6()), (address) => {
        fc.pre(isIP(address) !== 0)
        const plain = clientAddress(address)
        expect(isIP(plain)).not.toBe(0)
        expect(clientAddress(plain)).toBe(plain)
      }),
    )
  })
})
