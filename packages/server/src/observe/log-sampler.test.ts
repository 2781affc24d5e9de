import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createSampler } from './log-sampler.js'

let written: string[]

beforeEach(() => {
  written = []
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

const sampler = (options = {}) => createSampler({ first: 2, windowMs: 1_000, mostKinds: 3, ...options })
const writer = (name: string) => (leftOut: number) => void written.push(leftOut > 0 ? `${name}+${leftOut}` : name)

describe('a sampler of lines', () => {
  it('writes the first lines of a kind at once, and the last one when the window ends', () => {
    const { take } = sampler()
    for (let at = 0; at < 6; at++) take('a', 'all', writer(`a${at}`))
    take('b', 'all', writer('b0'))
    expect(written).toEqual(['a0', 'a1', 'b0'])
    vi.advanceTimersByTime(1_000)
    expect(written).toEqual(['a0', 'a1', 'b0', 'a5+3'])
  })

  it('counts the line that ended a window among the first of the next', () => {
    const { take } = sampler()
    for (let at = 0; at < 3; at++) take('a', 'all', writer(`a${at}`))
    vi.advanceTimersByTime(1_000)
    for (let at = 3; at < 6; at++) take('a', 'all', writer(`a${at}`))
    expect(written).toEqual(['a0', 'a1', 'a2', 'a3'])
    vi.advanceTimersByTime(1_000)
    expect(written).toEqual(['a0', 'a1', 'a2', 'a3', 'a5+1'])
  })

  it('forgets a kind after a window in which nothing was left out', () => {
    const { take } = sampler()
    for (let round = 0; round < 3; round++) {
      for (const kind of ['a', 'b', 'c']) take(`${kind}${round}`, 'all', writer(`${kind}${round}`))
      vi.advanceTimersByTime(1_000)
    }
    expect(written).toEqual(['a0', 'b0', 'c0', 'a1', 'b1', 'c1', 'a2', 'b2', 'c2'])
    expect(vi.getTimerCount()).toBe(0)
  })

  it('samples kinds beyond its limit together', () => {
    const { take, close } = sampler()
    for (let at = 0; at < 100; at++) take(`kind ${at}`, 'all', writer(`${at}`))
    expect(written).toEqual(['0', '1', '2', '3', '4'])
    expect(vi.getTimerCount()).toBe(4)
    close()
    expect(written.at(-1)).toBe('99+94')
    expect(vi.getTimerCount()).toBe(0)
  })

  it('tells a writer whether it is the first of its kind', () => {
    const { take } = sampler()
    const seen: boolean[] = []
    for (let at = 0; at < 2; at++) take('a', 'all', (_, isFirst) => void seen.push(isFirst))
    expect(seen).toEqual([true, false])
  })
})
