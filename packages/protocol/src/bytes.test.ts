import fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import { loadOn } from '../../../test/support/platforms/platform.js'
import { ANY_CHARACTER } from '../../../test/support/vectors/any-text.js'
import * as onNode from './bytes.js'

type Bytes = typeof onNode

let nativeCalls = 0

/** The base64 methods of recent platforms, as lenient as those: they accept white space and trailing bits. */
const base64 = {
  toBase64(this: Uint8Array): string {
    nativeCalls++
    return Buffer.from(this).toString('base64')
  },
  fromBase64(text: string): Uint8Array {
    nativeCalls++
    if (/[^A-Za-z0-9+/=\t\n\f\r ]/.test(text)) throw new SyntaxError('not base64')
    return new Uint8Array(Buffer.from(text, 'base64'))
  },
}

/** A Uint8Array constructor with or without native base64 methods; it makes ordinary arrays. */
function uint8Array({ toBase64, fromBase64 }: Partial<typeof base64>): unknown {
  const make = (...args: [number]) => new Uint8Array(...args)
  return Object.assign(
    function PlatformUint8Array(...args: [number]) {
      return make(...args)
    },
    {
      prototype: Object.create(Uint8Array.prototype, { toBase64: { value: toBase64 } }),
      from: Uint8Array.from.bind(Uint8Array),
      fromBase64,
    },
  )
}

const loadOnOther = (platform: Partial<typeof base64>) =>
  loadOn<Bytes>({ Buffer: undefined, Uint8Array: uint8Array(platform) }, new URL('bytes.ts', import.meta.url))

const platforms = [
  ['with Buffer', async () => onNode],
  ['with the base64 of the platform', () => loadOnOther(base64)],
  ['with neither', () => loadOnOther({})],
] as const

describe.each(platforms)('base64 %s', (name, load) => {
  let bytes: Bytes

  beforeAll(async () => {
    bytes = await load()
  })

  it('uses what it says it uses', () => {
    nativeCalls = 0
    bytes.decodeBase64(bytes.encodeBase64(new Uint8Array(3)))
    expect(nativeCalls > 0).toBe(name === 'with the base64 of the platform')
    expect(bytes === onNode).toBe(name === 'with Buffer')
  })

  it('decodes what it encoded, whatever the bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), (input) => {
        const text = bytes.encodeBase64(input)
        expect(bytes.decodeBase64(text)).toEqual(input)
        expect(bytes.isBase64(text, input.length)).toBe(true)
        expect(bytes.isBase64(text, input.length + 1)).toBe(false)
      }),
    )
  })

  it.each([0, 1, 2, 32, 65_536])('decodes %d bytes into memory of their own', (length) => {
    const decoded = bytes.decodeBase64(bytes.encodeBase64(new Uint8Array(length).fill(7)))
    expect(decoded).toEqual(new Uint8Array(length).fill(7))
    expect(decoded.buffer.byteLength).toBe(length)
  })

  it('encodes a view, not the memory around it', () => {
    const memory = Uint8Array.from({ length: 20 }, (_, at) => at)
    expect(bytes.encodeBase64(memory.subarray(4, 8))).toBe('BAUGBw==')
    expect(bytes.encodeBase64(new Uint8Array(4_096).subarray(0, 2_048))).toBe(`${'A'.repeat(2_731)}=`)
  })

  it('accepts no canonical text with a character or two in the place of others', () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ minLength: 1, maxLength: 20 }),
        fc.array(fc.tuple(fc.nat(), fc.string({ unit: ANY_CHARACTER, minLength: 1, maxLength: 2 })), {
          minLength: 1,
          maxLength: 2,
        }),
        (input, changes) => {
          const right = bytes.encodeBase64(input)
          const wrong = changes.reduce((text, [place, put]) => {
            const at = place % text.length
            return text.slice(0, at) + put + text.slice(at + put.length)
          }, right)
          let decoded: Uint8Array | undefined
          try {
            decoded = bytes.decodeBase64(wrong)
          } catch (error) {
            expect((error as Error).name).toBe('FormatError')
          }
          if (decoded) expect(bytes.encodeBase64(decoded)).toBe(wrong)
          expect(bytes.isBase64(wrong)).toBe(decoded !== undefined)
        },
      ),
      { numRuns: 2_000 },
    )
  })

  it('accepts no text but the one that the bytes encode to', () => {
    const alphabet = [...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_ \n*']
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...alphabet), maxLength: 12 }), (text) => {
        let decoded: Uint8Array
        try {
          decoded = bytes.decodeBase64(text)
        } catch (error) {
          expect((error as Error).name).toBe('FormatError')
          return
        }
        expect(Buffer.from(decoded).toString('base64')).toBe(text)
      }),
      { numRuns: 2_000 },
    )
  })

  it.each([
    ['URL-safe characters', '-_-_'],
    ['missing padding', 'AA'],
    ['padding that is not needed', 'AAAA===='],
    ['half of the padding', 'AA='],
    ['padding alone', '='],
    ['padding in the middle', 'AA==AAAA'],
    ['non-zero trailing bits of one byte', 'AB=='],
    ['non-zero trailing bits of two bytes', 'AAB='],
    ['a blank in front', ' AAAA'],
    ['a line feed behind', 'AAAA\n'],
    ['a line feed inside', 'AA\nAA'],
    ['a character outside the alphabet', 'AA*A'],
    ['a letter that is not ASCII', 'ĀAAA'],
    ['a letter whose low eight bits are one of the alphabet', 'ŁAAA'],
    ['a lone surrogate', 'AAA\ud800'],
    ['five characters', 'AAAAA'],
  ])('refuses %s, and does not repeat it', (_, text) => {
    expect(() => bytes.decodeBase64(text)).toThrow('not canonical base64')
    expect(bytes.isBase64(text)).toBe(false)
  })
})

it('leaves nothing in the memory that base64 is coded in', async () => {
  const allocated: Buffer[] = []
  const from = (...memory: [ArrayBuffer, number, number]) => {
    allocated.push(Buffer.from(...memory))
    return Buffer.from(...memory)
  }
  const platform = { Buffer: { byteLength: Buffer.byteLength, alloc: Buffer.alloc, from } }
  const bytes = await loadOn<Bytes>(platform, new URL('bytes.ts', import.meta.url))
  const text = Buffer.alloc(32, 7).toString('base64')
  expect(bytes.decodeBase64(text)).toEqual(new Uint8Array(32).fill(7))
  expect(bytes.isBase64(text)).toBe(true)
  expect(bytes.encodeBase64(new Uint8Array(32).fill(7))).toBe(text)
  expect(bytes.encodeBase64Url(new Uint8Array(33).fill(7))).toBe(text.replace('=', 'H'))
  expect(() => bytes.decodeBase64(`${text.slice(0, 8)}*${text.slice(9)}`)).toThrow('not canonical base64')
  expect(allocated).toEqual([Buffer.alloc(1_024)])
})

describe('hexadecimal', () => {
  it('decodes what it encoded, whatever the bytes', () => {
    fc.assert(
      fc.property(fc.uint8Array(), (input) => {
        expect(onNode.decodeHex(onNode.encodeHex(input))).toEqual(input)
      }),
    )
  })

  it.each(['a', 'AB', '0x', 'zz', 'ab ', 'ab\n', ' ', 'a\u0661'])('refuses %j', (text) => {
    expect(() => onNode.decodeHex(text)).toThrow(onNode.FormatError)
  })
})

describe('UTF-8', () => {
  it('decodes what it encoded, whatever the text', () => {
    fc.assert(
      fc.property(fc.string({ unit: ANY_CHARACTER }), (text) => {
        expect(onNode.decodeUtf8(onNode.encodeUtf8(text))).toBe(text)
      }),
    )
  })

  it('keeps a byte order mark', () => {
    expect(onNode.decodeUtf8(onNode.encodeUtf8('\ufeffa'))).toBe('\ufeffa')
  })

  it.each(['\ud800', 'a\udfff', '\udc00\ud800', '\ud83d'])(
    'refuses a lone surrogate instead of replacing it: %j',
    (text) => {
      expect(() => onNode.encodeUtf8(text)).toThrow(onNode.FormatError)
    },
  )

  it.each(['ff', 'c080', 'eda080', 'f4908080', 'e282', '80'])('refuses bytes that are not UTF-8: %s', (hex) => {
    expect(() => onNode.decodeUtf8(onNode.decodeHex(hex))).toThrow(onNode.FormatError)
  })

  it('finds lone surrogates without the help of the platform too', () => {
    const helper = Object.getOwnPropertyDescriptor(String.prototype, 'isWellFormed')
    Reflect.deleteProperty(String.prototype, 'isWellFormed')
    try {
      expect(['', 'é🔐', '\ud800', 'x\udc00y'].map(onNode.isWellFormed)).toEqual([true, true, false, false])
    } finally {
      if (helper) Object.defineProperty(String.prototype, 'isWellFormed', helper)
    }
  })
})

describe('joined bytes', () => {
  it('puts the length in front of each, so that no two lists give the same bytes', () => {
    const lists = fc.array(fc.uint8Array({ maxLength: 5 }), { maxLength: 4 })
    fc.assert(
      fc.property(lists, lists, (a, b) => {
        const same = onNode.encodeHex(onNode.lengthPrefixed(a)) === onNode.encodeHex(onNode.lengthPrefixed(b))
        expect(same).toBe(JSON.stringify(a.map(onNode.encodeHex)) === JSON.stringify(b.map(onNode.encodeHex)))
      }),
    )
    expect(onNode.encodeHex(onNode.lengthPrefixed([new Uint8Array([1, 2]), new Uint8Array(0)]))).toBe(
      '00000002010200000000',
    )
  })

  it('joins without lengths where they are fixed', () => {
    expect(onNode.concatBytes(new Uint8Array([1]), new Uint8Array(0), new Uint8Array([2, 3]))).toEqual(
      new Uint8Array([1, 2, 3]),
    )
  })
})

describe('comparing', () => {
  it('tells byte strings apart, also by length', () => {
    const { equalInConstantTime } = onNode
    fc.assert(
      fc.property(fc.uint8Array(), fc.uint8Array(), fc.nat(), (a, b, at) => {
        expect(equalInConstantTime(a, b)).toBe(Buffer.compare(a, b) === 0)
        expect(equalInConstantTime(a, a.slice())).toBe(true)
        expect(equalInConstantTime(a, new Uint8Array([...a, 0]))).toBe(false)
        if (a.length === 0) return
        expect(equalInConstantTime(a, a.slice(0, -1))).toBe(false)
        expect(equalInConstantTime(a, a.with(at % a.length, 255 - (a[at % a.length] as number)))).toBe(false)
      }),
    )
    expect(equalInConstantTime(new Uint8Array(0), new Uint8Array(1))).toBe(false)
  })
})

describe('a UUID', () => {
  const uuid = '0b54f9a4-6f0e-4c1c-9d2a-5e7a1c3b8f60'

  it('has one text: lower case, with dashes', () => {
    expect(onNode.isUuid(uuid)).toBe(true)
    for (const other of [uuid.toUpperCase(), `{${uuid}}`, uuid.replaceAll('-', ''), `${uuid}\n`, ` ${uuid}`, '']) {
      expect(onNode.isUuid(other)).toBe(false)
      expect(() => onNode.uuidBytes(other)).toThrow(onNode.FormatError)
    }
  })

  it('is sixteen bytes', () => {
    expect(onNode.encodeHex(onNode.uuidBytes(uuid))).toBe(uuid.replaceAll('-', ''))
  })
})
