// Searches of one tenant take turns, and a caller that gave up takes no place.
import { describe, expect, it } from 'vitest'
import { createSearchPlaces } from './work-gate.js'

const inSearchPlace = createSearchPlaces()
let tenants = 0

/** Searches of a tenant of its own, each of which ends when it is told to. */
function makeTenant() {
  const tenant_id = `tenant ${++tenants}`
  const runs: (() => void)[] = []
  const search = (signal?: AbortSignal) =>
    inSearchPlace({ tenant_id, signal }, () => new Promise<void>((resolve) => runs.push(resolve)))
  return { search, runs }
}

const settled = () => new Promise((resolve) => setImmediate(resolve))

describe('searches of one tenant', () => {
  it('run one after another, while another tenant searches', async () => {
    const [one, other] = [makeTenant(), makeTenant()]
    const searches = [one.search(), one.search(), other.search()]
    await settled()
    expect([one.runs.length, other.runs.length]).toEqual([1, 1])
    one.runs[0]?.()
    await settled()
    expect(one.runs).toHaveLength(2)
    one.runs[1]?.()
    other.runs[0]?.()
    await Promise.all(searches)
  })

  it('are refused when too many wait, and again taken after that', async () => {
    const { search, runs } = makeTenant()
    const searches = Array.from({ length: 8 }, () => search())
    await expect(search()).rejects.toMatchObject({ name: 'OverloadError', retryAfterSeconds: 1 })
    for (let at = 0; at < 8; at++) {
      runs[at]?.()
      await settled()
    }
    await Promise.all(searches)
    const last = search()
    runs[8]?.()
    await last
  })

  it('go on after one that failed', async () => {
    const where = { tenant_id: `tenant ${++tenants}`, signal: undefined }
    const failing = inSearchPlace(where, () => Promise.reject(new Error('no')))
    const next = inSearchPlace(where, async () => 'found')
    await expect(failing).rejects.toThrow('no')
    expect(await next).toBe('found')
  })

  it('that nobody waits for never begin, and leave their place', async () => {
    const { search, runs } = makeTenant()
    const gone = new AbortController()
    const first = search()
    const given = Array.from({ length: 7 }, () => search(gone.signal).catch((error) => error.code))
    gone.abort()
    expect(new Set(await Promise.all(given))).toEqual(new Set(['E_UNAVAILABLE']))
    const next = search()
    runs[0]?.()
    await settled()
    expect(runs).toHaveLength(2)
    runs[1]?.()
    await Promise.all([first, next])
    await expect(search(gone.signal)).rejects.toMatchObject({ code: 'E_UNAVAILABLE' })
  })
})
