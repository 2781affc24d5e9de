// What a body that arrives in pieces costs: its bytes, their number, and the memory that calls hold until it is given back.
import { describe, expect, it } from 'vitest'
import { collectBytes, createBodyHold, createHeldBytes, createPieceCount, MAX_PIECES } from './body-cost.js'

describe('collected bytes', () => {
  it.each([[[]], [[3]], [[0, 1, 0, 2]], [[5, 1, 300, 2, 7]], [Array.from({ length: 2_000 }, () => 1)]])(
    'are those of all pieces: %j',
    (lengths) => {
      const all = Uint8Array.from({ length: lengths.reduce((sum, length) => sum + length, 0) }, (_, at) => at % 251)
      const collected = collectBytes()
      let at = 0
      for (const length of lengths) {
        collected.add(all.subarray(at, at + length))
        at += length
      }
      expect(collected.bytes()).toEqual(all)
    },
  )

  it('are copies, and are zeroed where they are outgrown, and when they are cleared', () => {
    const piece = Uint8Array.of(1, 2, 3)
    const collected = collectBytes()
    collected.add(piece)
    const outgrown = collected.bytes()
    piece.fill(9)
    collected.add(Uint8Array.of(4))
    expect([...collected.bytes()]).toEqual([1, 2, 3, 4])
    expect([...outgrown]).toEqual([0, 0, 0])
    const cleared = collected.bytes()
    collected.clear()
    expect([...cleared]).toEqual([0, 0, 0, 0])
    collected.add(Uint8Array.of(5))
    expect([...collected.bytes()]).toEqual([5])
  })
})

it('the count of pieces says when there is one too many', () => {
  const isOneTooMany = createPieceCount()
  for (let piece = 0; piece < MAX_PIECES; piece += 1) expect(isOneTooMany()).toBe(false)
  expect(isOneTooMany()).toBe(true)
})

const create = (ofProcess: number, ofTenant: number, ofApiKey: number) =>
  createHeldBytes<[string, string]>(
    [ofProcess, ofTenant, ofApiKey],
    (bound) => new Error(['process', 'tenant', 'API key'][bound]),
  )

describe('what a body holds', () => {
  const takes = (...lengths: number[]) => {
    const taken: number[] = []
    const hold = createBodyHold({ take: (bytes) => taken.push(bytes) })
    for (const length of lengths) hold(length)
    return taken
  }

  it.each([
    ['the length that it states, and then only what goes beyond', [100, 40, 100, 130], [100, 30]],
    ['what arrived, where it states none', [0, 40, 70], [40, 30]],
    ['what arrived, where it states no length', [Number.NaN, 40, 70], [40, 30]],
    ['nothing less than nothing', [-100, 40], [40]],
  ])('is %s', (_, lengths, taken) => {
    expect(takes(...lengths)).toEqual(taken)
  })
})

describe('what calls hold', () => {
  it('is no more than a tenant may, in however many calls, and leaves room for the others', () => {
    const hold = create(100, 40, 40)
    const [first, second] = [hold('a', 'a 1'), hold('a', 'a 1')]
    first.take(30)
    second.take(10)
    expect(() => second.take(1)).toThrow('API key')
    expect(() => hold('a', 'a 1').take(1)).toThrow('API key')
    hold('b', 'b 1').take(40)
  })

  it('is no more than an API key may, and leaves room for the other API keys of its tenant', () => {
    const hold = create(100, 40, 30)
    hold('a', 'a 1').take(30)
    expect(() => hold('a', 'a 1').take(1)).toThrow('API key')
    hold('a', 'a 2').take(10)
    expect(() => hold('a', 'a 2').take(1)).toThrow('tenant')
  })

  it('is no more than a process may', () => {
    const hold = create(100, 40, 40)
    for (const tenant of ['a', 'b']) hold(tenant, `${tenant} 1`).take(40)
    const last = hold('c', 'c 1')
    last.take(20)
    expect(() => last.take(1)).toThrow('process')
    expect(() => hold('d', 'd 1').take(1)).toThrow('process')
  })

  it('is given back once, all of it, and a call that is over holds no more', () => {
    const hold = create(100, 40, 40)
    const call = hold('a', 'a 1')
    call.take(25)
    call.take(15)
    call.end()
    call.end()
    call.add(40)
    call.take(40)
    const next = hold('a', 'a 1')
    next.take(40)
    expect(() => next.take(1)).toThrow('API key')
  })

  it('may be more for an answer that can no longer be refused, which the next calls wait for', () => {
    const hold = create(100, 40, 40)
    const call = hold('a', 'a 1')
    call.add(60)
    expect(() => hold('a', 'a 1').take(1)).toThrow('API key')
    call.end()
    hold('a', 'a 1').take(40)
  })
})
