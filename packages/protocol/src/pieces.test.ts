// Bytes that arrive in pieces, however small.
import { describe, expect, it } from 'vitest'
import { collectBytes, createPieceCount, MAX_PIECES } from './pieces.js'

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
