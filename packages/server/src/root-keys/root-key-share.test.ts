// Shares of a root key, see root-key-share.md.
import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { combineShares, readShare, splitRootKey } from './root-key-share.js'
import vectors from './root-key-share.vectors.json' with { type: 'json' }

const combine = async (lines: readonly string[]) => combineShares(lines.map((line) => readShare(line, 'the file')))
const refusal = (work: Promise<unknown>): Promise<Error> =>
  work.then(
    () => expect.unreachable('not refused'),
    (error: Error) => error,
  )

describe('shares of a root key', () => {
  it.each(vectors.combine)('give the published one: $name', async ({ shares, root_key }) => {
    expect(Buffer.from(await combine(shares)).toString('hex')).toBe(root_key)
  })

  it.each(vectors.refuse_together)('are refused together: $name', async ({ shares }) => {
    const { name, message } = await refusal(combine(shares))
    expect(name).toBe('RootKeyError')
    for (const line of shares) expect(message).not.toContain(line.split('.')[4])
  })

  it.each(vectors.refuse)('are lines of their own form: $name', ({ share }) => {
    expect(() => readShare(share, 'the file')).toThrow(/^the file is /)
  })

  it('give the root key in any choice of enough of them, and fewer do not', async () => {
    const sizes = fc.integer({ min: 2, max: 9 }).chain((shares) =>
      fc.record({
        shares: fc.constant(shares),
        threshold: fc.integer({ min: 2, max: shares }),
        order: fc.shuffledSubarray([...Array(shares).keys()], { minLength: shares }),
      }),
    )
    await fc.assert(
      fc.asyncProperty(sizes, fc.uint8Array({ minLength: 32, maxLength: 32 }), async (size, rootKey) => {
        const { lines, set } = await splitRootKey(rootKey, size)
        const chosen = size.order.map((at) => lines[at] ?? '')
        expect(await combine(chosen.slice(0, size.threshold))).toEqual(rootKey)
        expect(await combine(chosen)).toEqual(rootKey)
        const { message } = await refusal(combine(chosen.slice(0, size.threshold - 1)))
        if (size.threshold > 2) expect(message).toContain(`The set ${set} needs ${size.threshold} shares`)
      }),
      { numRuns: 20 },
    )
  })

  it('are others each time, of another set', async () => {
    const rootKey = randomBytes(32)
    const size = { shares: 3, threshold: 2 }
    const [one, other] = [await splitRootKey(rootKey, size), await splitRootKey(rootKey, size)]
    expect(one.set).not.toBe(other.set)
    expect(new Set([...one.lines, ...other.lines]).size).toBe(6)
    const { message } = await refusal(combine([one.lines[0] ?? '', other.lines[1] ?? '']))
    expect(message).toContain('Shares of two sets do not go together')
  })

  it('are refused with any bit of a point altered, although the checksum is made anew', async () => {
    const { lines } = await splitRootKey(randomBytes(32), { shares: 3, threshold: 3 })
    const shares = lines.map((line) => readShare(line, 'the file'))
    const altered = shares[1]?.point ?? new Uint8Array()
    for (let bit = 0; bit < altered.length * 8; bit++) {
      altered[bit >> 3] = (altered[bit >> 3] ?? 0) ^ (1 << (bit & 7))
      expect((await refusal(combineShares(shares))).name).toBe('RootKeyError')
      altered[bit >> 3] = (altered[bit >> 3] ?? 0) ^ (1 << (bit & 7))
    }
    expect(await combineShares(shares)).toHaveLength(32)
  })
})
