// More batches than the server can process: it refuses the excess before any cryptography, and a large batch does not block other calls.
import { randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from 'vitest'
import { type Caller, type Service, startService } from '../support/service/service.js'

let service: Service
let owner: Caller
let key_id: string

beforeAll(async () => {
  service = await startService()
  owner = await service.createTenant()
  key_id = (await owner.call('POST', '/v1/keys', { name: 'k' })).body.id
})
afterAll(() => service?.close())

const wraps = (count: number) =>
  Array.from({ length: count }, () => ({ op: 'wrap', key_id, dek: randomBytes(32).toString('base64') }))
const batch = (count: number, caller = owner) => caller.call('POST', '/v1/batch', { operations: wraps(count) })
const total = async () => (await owner.call('GET', '/v1/audit?limit=1')).body.total

/** Keeps the gate full; returns a function that opens it again. */
async function fillGate(): Promise<() => Promise<unknown>> {
  const { gate } = service.services
  const leave = await gate.enter('another tenant', 10_000_000)
  let isOpen = false
  const wait = async () => {
    while (!isOpen)
      await gate.enter('another tenant', 10_000_000).then(
        (leave) => leave(),
        () => undefined, // it waited for too long: so does the next one
      )
  }
  const waiting = wait()
  return () => {
    isOpen = true
    leave()
    return waiting
  }
}

describe('batches beyond what can be worked off', () => {
  it('are refused with a problem document that says when to come back, and nothing of them is done', async () => {
    const before = await total()
    const state = await service.services.states.find(owner.tenant.tenant_id)
    if (!state) throw new Error('no state')
    const findKey = vi.spyOn(state, 'findKey')
    const open = await fillGate()
    const answers = await Promise.all([batch(1_000), batch(1)])
    const single = await owner.call('POST', '/v1/hash', { key_id, value: 'x' })
    const health = await owner.call('GET', '/health')
    await open()
    for (const { status, headers, body } of answers) {
      expect([status, body.code, headers.get('content-type')]).toEqual([
        503,
        'E_UNAVAILABLE',
        'application/problem+json',
      ])
      expect(Number(headers.get('retry-after'))).toBeGreaterThan(1)
    }
    expect([single.status, health.status]).toEqual([200, 200])
    expect(findKey.mock.calls.length).toBe(1) // of the single call
    findKey.mockRestore()
    expect(await total()).toBe(before)
    expect((await batch(3)).status).toBe(200)
    expect(await total()).toBe(before + 3)
  })

  it('wait for their turn where they can be begun in time', async () => {
    const leave = await service.services.gate.enter('another tenant', 1_000_000)
    let isAnswered = false
    const answer = batch(10).then(({ status }) => {
      isAnswered = true
      return status
    })
    expect((await owner.call('GET', '/health')).status).toBe(200)
    expect(isAnswered).toBe(false)
    leave()
    expect(await answer).toBe(200)
  })
})

describe('what calls hold in memory', () => {
  /** What calls of a tenant may hold at once. */
  const ALL = 33_554_432
  const BODY = 10_000

  /** Whether API keys that hold nothing find so much room, each a part of it. */
  const isFree = (bytes: number) => {
    const holdings = ['one', 'other'].map((id) => service.services.hold(owner.tenant.tenant_id, id))
    try {
      for (const holding of holdings) holding.take(bytes / holdings.length)
      return true
    } catch {
      return false
    } finally {
      for (const holding of holdings) holding.end()
    }
  }

  it('is given back when they are answered', async () => {
    expect((await batch(100)).status).toBe(200)
    await expect.poll(() => isFree(ALL)).toBe(true)
  })

  // The second of two begins once the first is answered, so until then it holds nothing.
  it.each([1, 2])('is given back when the connection closes that %d of them came by', async (calls) => {
    let open = () => undefined as unknown
    const entering = vi.spyOn(service.services.gate, 'enter').mockReturnValue(
      new Promise((resolve) => {
        open = () => resolve(() => undefined)
      }),
    )
    onTestFinished(() => entering.mockRestore())
    const { hostname, port } = new URL(service.url)
    const socket = connect(Number(port), hostname)
    const body = JSON.stringify({ operations: wraps(1) }).padEnd(BODY)
    const headers = `host: x\r\nauthorization: Bearer ${owner.secret}\r\ncontent-type: application/json\r\n`
    socket.write(`POST /v1/batch HTTP/1.1\r\n${headers}content-length: ${BODY}\r\n\r\n${body}`.repeat(calls))
    await expect.poll(() => [isFree(ALL - BODY), isFree(ALL - BODY + 1)]).toEqual([true, false])
    socket.destroy()
    await expect.poll(() => isFree(ALL)).toBe(true)
    open()
  })
})

describe('a large batch', () => {
  it('is decided in slices, between which other calls have their turns', async () => {
    const state = await service.services.states.find(owner.tenant.tenant_id)
    if (!state) throw new Error('no state')
    const findKey = state.findKey.bind(state)
    let turns = 0
    const seen = new Set<number>()
    const tick = (): void => {
      turns += 1
      ticking = setImmediate(tick)
    }
    let ticking = setImmediate(tick)
    const finding = vi.spyOn(state, 'findKey').mockImplementation((wanted) => {
      seen.add(turns)
      for (const until = performance.now() + 1; performance.now() < until; ); // an operation that takes a millisecond
      return findKey(wanted)
    })
    try {
      const { status, body } = await batch(100)
      expect([status, body.results.length]).toEqual([200, 100])
      expect(seen.size).toBeGreaterThan(5)
    } finally {
      clearImmediate(ticking)
      finding.mockRestore()
    }
  })
})
