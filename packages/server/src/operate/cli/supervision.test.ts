// How long a stop may take. What the database does meanwhile is in test/audit/rollback/locked-tables.test.ts.
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { closeAndExit } from './supervision.js'

const never = new Promise<never>(() => undefined)

describe('a server that is told to stop', () => {
  beforeEach(() => void vi.useFakeTimers())
  afterEach(() => {
    vi.restoreAllMocks()
    vi.useRealTimers()
  })

  it('ends within ten seconds though nothing answers, and first writes where each log ended', async () => {
    const exit = vi.spyOn(process, 'exit').mockReturnValue(undefined as never)
    const keepWitnessed = vi.fn(async () => expect(exit).not.toHaveBeenCalled())
    const server = {
      app: { close: () => never, log: { error: () => undefined } },
      installation: { close: () => never },
      keepWitnessed,
    }
    closeAndExit(server as unknown as Parameters<typeof closeAndExit>[0])
    await vi.advanceTimersByTimeAsync(10_000)
    expect(keepWitnessed).toHaveBeenCalledOnce()
    expect(exit).toHaveBeenCalledWith(1)
  })
})
