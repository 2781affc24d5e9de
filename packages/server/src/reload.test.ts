import { describe, expect, it } from 'vitest'
import { readConfig } from './core/config.js'
import type { TlsListener } from './core/http/tls-listener.js'
import { startReload } from './reload.js'

/** A listener whose files change, or are wrong, as a test says. */
function fakeListener() {
  let [isChanged, fault] = [false, undefined as string | undefined]
  let reads = 0
  const tls: Pick<TlsListener, 'reload' | 'state'> = {
    reload() {
      reads += 1
      if (fault !== undefined) throw new Error(fault)
      const was = isChanged
      isChanged = false
      return was
    },
    state: () => ({ expiresAt: Date.UTC(2030, 0), isStale: fault !== undefined }),
  }
  return {
    tls: tls as TlsListener,
    change: () => {
      isChanged = true
    },
    break: (message: string | undefined) => {
      fault = message
    },
    reads: () => reads,
  }
}

function fakeLog() {
  const lines: string[] = []
  const details: unknown[] = []
  const write = (detail: unknown, message: string) => {
    lines.push(message)
    details.push(detail)
  }
  return { lines, details, log: { warn: write, error: write } }
}

const NOT_ALL = 'not everything was reloaded at SIGHUP: see the errors before this line'

describe('what a running server reads again', () => {
  it('is noticed without a signal, and a fault is logged once until it is another one', async () => {
    const listener = fakeListener()
    const { lines, log } = fakeLog()
    const reload = startReload({
      tls: listener.tls,
      config: readConfig({}),
      setLogLevel: () => undefined,
      log,
      intervalMs: 5,
    })
    const goOn = async () => {
      const from = listener.reads()
      await expect.poll(listener.reads).toBeGreaterThan(from + 3)
    }
    listener.change()
    await goOn()
    expect(lines).toEqual(['new connections get another certificate'])
    listener.break('one')
    await goOn()
    expect(lines).toHaveLength(2)
    listener.break('two')
    await goOn()
    expect(lines).toHaveLength(3)
    await reload.now(() => readConfig({})) // says again what is wrong
    expect(lines.slice(3)).toEqual([lines[2], NOT_ALL])
    reload.stop()
    const ended = listener.reads()
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(listener.reads()).toBe(ended)
  })

  it('is the level of the log; other settings that changed are named', async () => {
    const { lines, details, log } = fakeLog()
    const levels: string[] = []
    const config = readConfig({})
    const reload = startReload({ tls: undefined, config, setLogLevel: (level) => levels.push(level), log })
    await reload.now(() => readConfig({ EAAS_LOG_LEVEL: 'debug' }))
    expect([levels, lines]).toEqual([['debug'], ['reloaded at SIGHUP']])
    await reload.now(() => readConfig({ EAAS_PORT: '1', EAAS_DRAIN_SECONDS: '5' }))
    expect(details).toContainEqual({ settings: ['port', 'drainSeconds'] })
    await reload.now(() => readConfig({ EAAS_PORT: 'x' }))
    expect(levels).toEqual(['debug', 'info']) // as before
    expect(lines.slice(-2)).toEqual(['the settings stay as they are', NOT_ALL])
  })
})
