// What one caller can take of a process with a heap of 512 MB: bodies in pieces of a byte, bodies that never end, answers that nobody reads.
// The server stays alive, refuses the excess, and serves the others.
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { freshDatabase } from '../support/database/database.js'
import { IS_SLOW_RUN, rounds } from '../support/run/rounds.js'
import { createTenantInProcess, type EaasProcess, startEaas } from '../support/service/eaas-process.js'
import { measureLatencies, peakMiB } from '../support/service/latency.js'
import { callsOf } from '../support/service/load.js'

const HEAP = { NODE_OPTIONS: '--max-old-space-size=512' }
const MIB = 1_048_576
/** For an answer after the last byte was sent. */
const WAIT_MS = 5_000
/** Generous for a busy machine: without its bounds the server answers nobody for longer, or dies. */
const MOST_P99_MS = 4_000
/** What the server may grow by, in MiB: its budget for one tenant is 32, beside garbage that is not collected yet. */
const MOST_GROWTH_MIB = 200

let eaas: EaasProcess
let attacker: string
let other: string

beforeAll(async () => {
  const database = await freshDatabase('floods', { migrated: true })
  attacker = (await createTenantInProcess({ database }, 'attacker')).api_key.secret
  other = (await createTenantInProcess({ database }, 'other')).api_key.secret
  eaas = await startEaas({ database, environment: HEAP })
})
afterAll(async () => {
  await eaas?.kill9()
})

interface Poured {
  sent: number
  answer: string
}

/** Sends a request's head, and then the same bytes until the server ends the connection or `most` were sent. */
async function pour(head: string, bytes: Buffer, most: number): Promise<Poured> {
  const { hostname, port } = new URL(eaas.url)
  const socket = connect(Number(port), hostname)
  const poured = { sent: 0, answer: '' }
  socket.setEncoding('latin1').on('data', (text: string) => {
    poured.answer += text
  })
  async function* pieces() {
    yield head
    for (; poured.sent < most; poured.sent += bytes.length) yield bytes
  }
  await pipeline(Readable.from(pieces()), socket, { end: false }).catch(() => undefined) // the server ended it
  if (!socket.destroyed) await Promise.race([once(socket, 'close').catch(() => undefined), sleep(WAIT_MS)])
  socket.destroy()
  return poured
}

const head = (method: string, path: string, secret: string, fields: string) =>
  `${method} ${path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${secret}\r\ncontent-type: application/json\r\n${fields}\r\n\r\n`

/** Runs an attack, and another tenant's calls beside it. */
async function beside<T>(attack: () => Promise<T>) {
  let outcome: T | undefined
  let growth = 0
  const before = await peakMiB(() => eaas.pid, sleep(0))
  const attacked = attack().then((result) => {
    outcome = result
  })
  const others = measureLatencies({ url: eaas.url, secret: other, clients: 2, pauseMs: 20, during: attacked })
  growth = (await peakMiB(() => eaas.pid, others)) - before
  return { outcome: outcome as T, growth, ...(await others) }
}

const served = (calls: { failed: number; p99: number }) => {
  expect(calls.failed).toBe(0)
  expect(calls.p99).toBeLessThan(MOST_P99_MS)
}

/** Chunks of one byte. */
const tinyChunks = (bytes: string, count: number) => Buffer.from(`1\r\n${bytes}\r\n`.repeat(count))

describe('a body in chunks of one byte', () => {
  const size = 6_000_000

  it.each(['/health', '/v1/keys', '/nothing'])(
    'is cut off where nobody reads it, without an API key: %s',
    async (path) => {
      const poured = () =>
        Promise.all(
          Array.from({ length: rounds(8, 24) }, () =>
            pour(head('POST', path, 'none', 'transfer-encoding: chunked'), tinyChunks('a', 10_000), size),
          ),
        )
      const { outcome, ...others } = await beside(poured)
      for (const { sent } of outcome) expect(sent).toBeLessThan(size)
      served(others)
    },
  )

  it.each([
    ['/v1/batch', ' '],
    ['/v1/hash', ' '],
  ])('is refused, and takes no memory: %s', async (path, byte) => {
    const poured = () =>
      Promise.all(
        Array.from({ length: rounds(4, 24) }, () =>
          pour(head('POST', path, attacker, 'transfer-encoding: chunked'), tinyChunks(byte, 10_000), size),
        ),
      )
    const { outcome, growth, ...others } = await beside(poured)
    for (const { sent, answer } of outcome) {
      expect(sent).toBeLessThan(size)
      expect(answer).toMatch(/^(HTTP\/1.1 400 .*E_MALFORMED_REQUEST|$)/s)
    }
    expect(growth).not.toBeGreaterThan(MOST_GROWTH_MIB)
    served(others)
  })
})

describe('a large body that never ends', () => {
  const size = 7.8 * MIB
  const opening = '{"operations":['
  const item = `{"dek":"${'x'.repeat(65_536)}"},`
  const asChunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`

  it.each([
    ['of a declared length', `content-length: ${8 * MIB}`, (text: string) => text],
    ['in chunks', 'transfer-encoding: chunked', asChunk],
  ])('%s is refused beyond what a tenant may hold, with 503', async (_, fields, write) => {
    const begun = head('POST', '/v1/batch', attacker, fields) + write(opening)
    const count = rounds(60, 100)
    const poured = () => Promise.all(Array.from({ length: count }, () => pour(begun, Buffer.from(write(item)), size)))
    const { outcome, growth, ...others } = await beside(poured)
    const admitted = outcome.filter(({ answer }) => answer === '')
    const refused = outcome.filter(({ answer }) => /^HTTP\/1.1 503 .*retry-after: \d+\r\n.*E_UNAVAILABLE/s.test(answer))
    expect([admitted.length <= 4, admitted.length + refused.length]).toEqual([true, count])
    expect(growth).not.toBeGreaterThan(MOST_GROWTH_MIB)
    served(others)
  })
})

/** Sends a request and reads nothing of its answer. */
async function leaveUnread(path: string): Promise<Socket> {
  const { hostname, port } = new URL(eaas.url)
  const socket = connect(Number(port), hostname).on('error', () => undefined)
  await once(socket, 'connect')
  socket.pause()
  socket.write(head('GET', path, attacker, ''))
  return socket
}

/** Reads an answer as a whole. */
async function read(path: string, secret: string): Promise<{ status: number; text: string }> {
  const answer = await fetch(eaas.url + path, { headers: { authorization: `Bearer ${secret}` } })
  return { status: answer.status, text: await answer.text() }
}

describe('a long answer', () => {
  // The system takes up to four megabytes of an answer that nobody reads.
  /** Of a name of 1,000 bytes each: a list of seven megabytes. */
  const KEYS = 5_000
  /** Of 700 bytes each in an export. */
  const ENTRIES = 20_000

  beforeAll(async () => {
    const call = callsOf(attacker)
    let key_id = ''
    for (let from = 0; from < KEYS; from += 1_000) {
      const keys = Array.from({ length: 1_000 }, (_, at) => ({ name: `${'🗝'.repeat(250)}${from + at}` }))
      const { body } = await call(eaas.url, 'POST', '/v1/batch/keys', { keys })
      key_id = body.results[0].body.id
    }
    const dek = randomBytes(32).toString('base64')
    const operations = Array.from({ length: 1_000 }, () => ({ op: 'wrap', key_id, dek }))
    const body = JSON.stringify({ operations })
    const headers = {
      authorization: `Bearer ${attacker}`,
      'content-type': 'application/json',
      'eaas-on-behalf-of': 'x'.repeat(255),
    }
    for (let entries = 0; entries < ENTRIES; entries += operations.length) {
      expect((await fetch(`${eaas.url}/v1/batch`, { method: 'POST', headers, body })).status).toBe(200)
    }
  })

  it('of a list is read from the database no faster than by its client, and what has no room is refused', async () => {
    const count = rounds(60, 120)
    const attack = async () => {
      const sockets = await Promise.all(Array.from({ length: count }, () => leaveUnread('/v1/keys')))
      await sleep(WAIT_MS)
      const { status, text } = await read('/v1/keys', attacker)
      for (const socket of sockets) socket.destroy()
      return { status, text }
    }
    const { outcome, growth, ...others } = await beside(attack)
    expect([outcome.status, JSON.parse(outcome.text).code]).toEqual([503, 'E_UNAVAILABLE'])
    expect(growth).not.toBeGreaterThan(MOST_GROWTH_MIB)
    served(others)
    await expect.poll(async () => (await read('/v1/keys', attacker)).status).toBe(200)
    const { keys, ...rest } = JSON.parse((await read('/v1/keys', attacker)).text)
    const ids = new Set(keys.map(({ id }: { id: string }) => id))
    expect([ids.size, rest]).toEqual([KEYS, { count: KEYS }])
  })

  it('of an export that nobody reads keeps no other export waiting, of the same tenant or another', async () => {
    const attack = async () => {
      const sockets = await Promise.all(Array.from({ length: 8 }, () => leaveUnread('/v1/audit/export')))
      await sleep(WAIT_MS)
      const answers = await Promise.all([attacker, other].map((secret) => read('/v1/audit/export', secret)))
      for (const socket of sockets) socket.destroy()
      return answers.map(({ status }) => status)
    }
    const { outcome, growth, ...others } = await beside(attack)
    expect(outcome).toEqual([200, 200])
    expect(growth).not.toBeGreaterThan(MOST_GROWTH_MIB)
    served(others)
  })

  it.runIf(IS_SLOW_RUN)('is ended within a minute when its client takes nothing of it', async () => {
    const socket = await leaveUnread('/v1/audit/export')
    await sleep(75_000)
    socket.resume()
    let text = ''
    socket.on('data', (bytes) => {
      text = (text + bytes.toString('latin1')).slice(-10_000)
    })
    await once(socket, 'close')
    expect(text).not.toContain('"public_key"') // in its last line
  })
})
