import { decodeHex, encodeHex, encodeUtf8 } from '@eaas/protocol'
import { describe, expect, it } from 'vitest'
import { loadOn } from '../../../../test/support/platforms/platform.js'
import { loadWycheproof } from '../../../../test/support/vectors/vectors.js'
import { createHmac } from './web.js'

const wycheproof = loadWycheproof('hmac_sha256_test')

describe('an HMAC', () => {
  // RFC 4231, test case 1
  it('is HMAC-SHA-256, again and again, and wipes the key that it was given at once', async () => {
    const key = new Uint8Array(20).fill(0x0b)
    const hmac = createHmac(key)
    expect(key).toEqual(new Uint8Array(20))
    for (const _ of [1, 2]) {
      expect(encodeHex(await hmac(encodeUtf8('Hi There')))).toBe(
        'b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7',
      )
    }
  })

  it.each([
    ['crypto', undefined],
    ['subtle', {}],
  ])('is refused where there is no %s', async (_, crypto) => {
    const { createHmac } = await loadOn<typeof import('./web.js')>({ crypto }, new URL('web.ts', import.meta.url))
    expect(() => createHmac(new Uint8Array(32).fill(1))).toThrow(expect.objectContaining({ code: 'E_INVALID_INPUT' }))
  })
})

describe.runIf(wycheproof)('Wycheproof HMAC-SHA-256', () => {
  const tests = (wycheproof?.testGroups ?? []).flatMap(({ tagSize, tests }) =>
    tests.map((test) => ({ ...test, tagDigits: tagSize / 4 })),
  )

  it.each(tests)('$tcId $comment: $result', async ({ key, msg, tag, tagDigits, result }) => {
    const made = encodeHex(await createHmac(decodeHex(key))(decodeHex(msg)))
    expect(made.slice(0, tagDigits) === tag).toBe(result === 'valid')
  })
})
