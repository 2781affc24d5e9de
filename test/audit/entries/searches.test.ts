// Searches of a long log: read a stretch at a time, those of one tenant one after another, and the other tenants' calls go on.
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { type Caller, type Service, startService } from '../../support/service/service.js'

const dek = () => randomBytes(32).toString('base64')

let service: Service
let thief: Caller
let other: Caller
let keys: string[]

// 11,002 entries: of the API key, of the key, and of 11,000 wraps, a thousand for each row.
beforeAll(async () => {
  service = await startService()
  ;[thief, other] = [await service.createTenant(), await service.createTenant()]
  keys = []
  for (const owner of [thief, other]) keys.push((await owner.call('POST', '/v1/keys', { name: 'a' })).body.id)
  for (let row = 1; row <= 11; row++) {
    const wrap = { op: 'wrap', key_id: keys[0], context: { row: String(row) } }
    const operations = Array.from({ length: 1_000 }, () => ({ ...wrap, dek: dek() }))
    expect((await thief.call('POST', '/v1/batch', { operations })).status).toBe(200)
  }
})
afterAll(() => service?.close())

const search = (query: string) => thief.call('GET', `/v1/audit?${query}`)
const rowQuery = (row: string) => `context=${encodeURIComponent(JSON.stringify({ row }))}`

/** Lets no read of the log begin until it is told to. */
function holdReads() {
  const { readGate } = service.services
  const begin = readGate.enter
  let release: () => void = () => undefined
  const held = new Promise<void>((resolve) => {
    release = resolve
  })
  const enter = vi.spyOn(readGate, 'enter').mockImplementation(async (...turn) => {
    await held
    return begin(...turn)
  })
  return { enter, release }
}

describe('a search of the log', () => {
  it('finds the same entries over several stretches, in both orders and by page', async () => {
    const all = `actor=${thief.tenant.api_key.id}`
    for (const [order, first] of [
      ['asc', [5_001, 5_002, 5_003]],
      ['desc', [6_003, 6_002, 6_001]],
    ] as const) {
      const { body } = await search(`${all}&order=${order}&limit=3&offset=4999`)
      expect([body.total, body.logs.map(({ id }: { id: number }) => id)]).toEqual([11_001, first])
    }
    const { body } = await search(`${rowQuery('5')}&limit=1`)
    expect([body.total, body.logs[0].id]).toEqual([1_000, 5_002])
  })

  it('takes its turn for each stretch', async () => {
    const enter = vi.spyOn(service.services.readGate, 'enter')
    expect((await search('on_behalf_of=nobody')).body.total).toBe(0)
    expect(enter.mock.calls.map(([tenant_id]) => tenant_id)).toEqual(Array(3).fill(thief.tenant.tenant_id))
    enter.mockRestore()
  })

  it('of thirty at once runs one and keeps seven, while the other tenant wraps', async () => {
    const { enter, release } = holdReads()
    const refused: unknown[] = []
    const searches = Array.from({ length: 30 }, async () => {
      const { status, body } = await search(rowQuery('zzz'))
      if (status !== 200) refused.push([status, body.code])
      return status
    })
    await vi.waitFor(() => expect(refused).toEqual(Array(22).fill([503, 'E_UNAVAILABLE'])), { timeout: 20_000 })
    expect((await other.call('POST', `/v1/keys/${keys[1]}/wrap`, { dek: dek() })).status).toBe(200)
    expect(enter).toHaveBeenCalledTimes(1)
    enter.mockRestore()
    release()
    expect((await Promise.all(searches)).filter((status) => status === 200)).toHaveLength(8)
  })

  it('leaves its place, and reads no more, once its client is gone', async () => {
    const { enter, release } = holdReads()
    const gone = new AbortController()
    const ask = (signal: AbortSignal) =>
      fetch(`${service.url}/v1/audit?${rowQuery('zzz')}`, {
        headers: { authorization: `Bearer ${thief.secret}` },
        signal,
      })
    // The ninth is refused once eight have their places.
    const searches = Array.from({ length: 9 }, () =>
      ask(gone.signal).then(
        ({ status }) => status,
        () => 'gone',
      ),
    )
    expect(await Promise.race(searches)).toBe(503)
    gone.abort()
    expect((await Promise.all(searches)).sort()).toEqual([503, ...Array(8).fill('gone')])
    await vi.waitFor(
      () => expect(ask(AbortSignal.timeout(500)).catch(({ name }: Error) => name)).resolves.toBe('TimeoutError'), // it waits
      { timeout: 20_000 },
    )
    const begun = enter.mock.calls.length
    enter.mockRestore()
    release()
    expect((await search(rowQuery('5'))).body.total).toBe(1_000)
    expect(begun).toBe(1)
  })
})
