// The database dies during a large batch: its entries are committed together or not at all, and the caller gets no result without them.
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { backend, freshDatabase } from '../support/database/database.js'
import { connectTo } from '../support/service/eaas-process.js'
import { type Caller, type Service, startService } from '../support/service/service.js'
import { socketProxy } from './socket-proxy.js'

const OPERATIONS = 1_000
/** Their entries are some 300 KB in one statement. */
const MIDDLE_BYTES = 150_000

const NOT_KNOWN = [500, 'E_AUDIT_NOT_WRITTEN', expect.stringContaining('it is unknown whether')]
const NOT_WRITTEN = [503, 'E_UNAVAILABLE', expect.stringContaining('so the call was not carried out')]

/** A proxy in front of the database that can lose it: all connections end, and new ones are refused until it is found again. */
async function startLosingProxy(target: URL) {
  let left = Number.POSITIVE_INFINITY
  let untilMute = Number.POSITIVE_INFINITY
  const { listen, close } = socketProxy({ port: Number(target.port), host: target.hostname }, (client, database) => {
    client.on('data', (bytes) => {
      database.write(bytes.subarray(0, left))
      left -= bytes.length
      untilMute -= bytes.length
      if (left <= 0) lose()
    })
    database.on('data', (bytes) => void (untilMute > 0 && client.write(bytes)))
  })
  const lose = () => void close()
  const port = await listen()
  return {
    port,
    lose,
    /** Loses the database after this many more bytes to it. */
    loseAfter(bytes: number) {
      left = bytes
    },
    /** Passes no answer on after this many more bytes to it. */
    muteAfter(bytes: number) {
      untilMute = bytes
    },
    async find() {
      left = Number.POSITIVE_INFINITY
      untilMute = Number.POSITIVE_INFINITY
      await listen(port)
    },
  }
}

describe.skipIf(backend() === 'embedded')(
  'a batch during which the database dies (the embedded one dies with the server)',
  () => {
    let proxy: Awaited<ReturnType<typeof startLosingProxy>>
    let service: Service
    let owner: Caller
    let key_id: string
    let direct: ReturnType<typeof connectTo>

    beforeAll(async () => {
      const database = await freshDatabase('batch')
      if (database.backend !== 'postgres') throw new Error('not PostgreSQL')
      const url = new URL(database.url)
      proxy = await startLosingProxy(new URL(url))
      url.port = String(proxy.port)
      direct = connectTo(database)
      service = await startService({ database: { ...database, url: url.href } })
      owner = await service.createTenant()
      key_id = (await owner.call('POST', '/v1/keys', { name: 'k' })).body.id
      await wraps(1)
    })
    afterAll(async () => {
      proxy.lose()
      await service.close()
      await direct.end()
    })

    const wraps = (count: number) => {
      const operation = () => ({ op: 'wrap', key_id, dek: randomBytes(32).toString('base64') })
      return owner.call('POST', '/v1/batch', { operations: Array.from({ length: count }, operation) })
    }
    const countEntries = async () => {
      const [row] = await direct<{ entries: number }[]>`
      select count(*)::integer as entries from audit_log where tenant_id = ${owner.tenant.tenant_id} and action = 'key.wrap'`
      return row?.entries ?? 0
    }

    it.each([
      {
        when: 'before it begins',
        die: async () => proxy.lose(),
        answer: NOT_WRITTEN,
        written: 0,
      },
      {
        when: 'while its entries are sent',
        die: async () => proxy.loseAfter(MIDDLE_BYTES),
        answer: NOT_KNOWN,
        written: 0,
      },
      {
        when: 'after it has committed them, and before it says so',
        die: async (before: number) => {
          proxy.muteAfter(MIDDLE_BYTES)
          void expect
            .poll(countEntries)
            .toBe(before + OPERATIONS)
            .then(proxy.lose, proxy.lose)
        },
        answer: NOT_KNOWN,
        written: OPERATIONS,
      },
    ])('$when: $written of its entries are written, and nothing is answered', async ({ die, answer, written }) => {
      const before = await countEntries()
      await die(before)
      const { status, body } = await wraps(OPERATIONS)
      expect([status, body.code, body.detail]).toEqual(answer)
      expect(JSON.stringify(body)).not.toContain('wrapped_key')
      await proxy.find()
      expect(await countEntries()).toBe(before + written)
      await expect.poll(async () => (await wraps(1)).status).toBe(200)
      expect((await owner.call('GET', '/v1/audit/verify')).body).toMatchObject({ valid: true })
      expect(await countEntries()).toBe(before + written + 1)
    })
  },
)
