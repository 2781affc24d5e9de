import { describe, expect, it, vi } from 'vitest'
import { onAbort } from './on-abort.js'

describe('listening to a signal', () => {
  it('runs everybody who listens, with one listener on the signal', () => {
    const controller = new AbortController()
    const add = vi.spyOn(controller.signal, 'addEventListener')
    const runs = Array.from({ length: 20 }, () => vi.fn())
    for (const run of runs) onAbort(controller.signal, run)
    controller.abort()
    expect(add).toHaveBeenCalledTimes(1)
    for (const run of runs) expect(run).toHaveBeenCalledTimes(1)
  })

  it('runs nobody who has left, so that a signal that lives long holds no call that is over', () => {
    const controller = new AbortController()
    const run = vi.fn()
    onAbort(controller.signal, run)()
    controller.abort()
    expect(run).not.toHaveBeenCalled()
  })
})
