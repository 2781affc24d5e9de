// Logs that are verified in a thread of their own: the answer is the one that this thread would give, and what fails in it fails here.
// The thread runs the built program, on PostgreSQL only.
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { encodePublicKey, readCheckpoint } from '../../../packages/audit/src/formats/checkpoint.js'
import {
  createVerificationThread,
  type ValidLog,
  type Verifier,
  type VerifyOptions,
  verifyLog,
} from '../../../packages/server/src/core/audit/verify/verify.js'
import { DatabaseDeadlineError } from '../../../packages/server/src/core/store/deadline.js'
import { isUnreachable } from '../../../packages/server/src/core/store/unreachable.js'
import { backend, freshDatabase } from '../../support/database/database.js'
import { databaseWithTenant } from '../../support/database/filled-database.js'
import { freePort } from '../../support/database/postgres.js'
import { startEaas } from '../../support/service/eaas-process.js'
import { callsOf } from '../../support/service/load.js'
import { type Caller, type Service, startService } from '../../support/service/service.js'

const PROGRAM = new URL('../../../packages/server/dist/verification-thread-program.js', import.meta.url)
const isPooled = false
const runs = backend() === 'postgres'

let service: Service
let owner: Caller
let options: Pick<VerifyOptions, 'tenant_id' | 'auditKey' | 'storeKeys'>
let url: string
let folder: string

beforeAll(async () => {
  if (!runs) return
  folder = mkdtempSync(join(tmpdir(), 'eaas-thread-'))
  const database = await freshDatabase('thread', { migrated: true })
  if (database.backend === 'postgres') url = database.url
  service = await startService({ database })
  owner = await service.createTenant()
  const { tenant_id } = owner.tenant
  for (let id = 2; id <= 6; id++) await owner.call('POST', '/v1/keys', { name: `key ${id}` })
  const state = await service.services.states.find(tenant_id)
  if (!state) throw new Error('no state')
  options = { tenant_id, auditKey: state.auditKey, storeKeys: service.services.storeKeys }
})
afterAll(async () => {
  await service?.close()
  if (folder) rmSync(folder, { recursive: true, force: true })
})

function open(program = PROGRAM, on = url): Verifier {
  const verifier = createVerificationThread({ url: on, isPooled, isSpread: false, searchPath: undefined }, program)
  onTestFinished(() => verifier.close())
  return verifier
}

/** A thread that does to each message what the text says. */
function openProgram(onMessage: string): Verifier {
  const file = join(folder, `thread-${Math.random()}.mjs`)
  writeFileSync(
    file,
    `import { parentPort } from 'node:worker_threads'
     parentPort.on('message', ({ id, kind, task }) => { ${onMessage} })`,
  )
  return open(pathToFileURL(file))
}

describe.skipIf(!runs)(
  'a verification in a thread (the embedded database is verified by the thread that runs it)',
  () => {
    it('answers as in this thread, of whole logs and of stretches, with rights and checkpoints', async () => {
      const { verify } = open()
      const { body } = await owner.call('GET', '/v1/audit/checkpoint')
      const checkpoint = readCheckpoint(body.checkpoint, encodePublicKey(service.services.signingKey))
      const witnessed = { last_id: 3, hash: new Uint8Array(32) }
      for (const more of [
        {},
        { after_id: 2 },
        { through_id: 3 },
        { after_id: 2, through_id: 4 },
        { checkpoint },
        { witnessed },
        { noted: { id: 3, every: 2 } },
      ]) {
        const valid: ValidLog[] = []
        const onValid = (found: ValidLog) => void valid.push(found)
        const there = await verify({ ...options, ...more, onValid })
        const here = await verifyLog(service.services.sql, { ...options, ...more, onValid })
        expect(there).toEqual(here)
        expect(there.valid).toBe(!('witnessed' in more))
        expect(valid[0]).toEqual(valid[1])
      }
    })

    it('finds an entry that was altered', async () => {
      const { verify } = open()
      const { tenant_id } = options
      const { sql } = service.services
      const [{ actor } = { actor: '' }] =
        await sql`select actor from audit_log where tenant_id = ${tenant_id} and id = 4`
      await sql`update audit_log set actor = 'somebody' where tenant_id = ${tenant_id} and id = 4`
      expect(await verify(options)).toMatchObject({ valid: false, broken_at: 4, reason: 'entry_altered' })
      await sql`update audit_log set actor = ${actor} where tenant_id = ${tenant_id} and id = 4`
      expect(await verify(options)).toMatchObject({ valid: true })
    })

    it('ends with the reason of the signal, before and while it runs', async () => {
      const { verify } = open()
      const gone = AbortSignal.abort(new Error('gone'))
      await expect(verify({ ...options, signal: gone })).rejects.toThrow('gone')
      const leaving = new AbortController()
      const answer = verify({ ...options, signal: leaving.signal })
      leaving.abort(new Error('left'))
      await expect(answer).rejects.toThrow('left')
      expect(await verify(options)).toMatchObject({ valid: true })
    })

    it('fails as a database that does not answer', async () => {
      const { verify } = open(PROGRAM, `postgres://localhost:${await freePort()}/none`)
      expect(isUnreachable(await verify(options).catch((error) => error))).toBe(true)
      const late = openProgram(
        `parentPort.postMessage({ id, kind: 'failed', failure: { name: 'DatabaseDeadlineError', message: 'late' } })`,
      )
      expect(await late.verify(options).catch((error) => error)).toBeInstanceOf(DatabaseDeadlineError)
    })

    it('fails with its thread; the next one has another thread', async () => {
      const { verify } = openProgram(
        `if (task.tenant_id === 'ends') process.exit(3)
       if (task.tenant_id === 'throws') throw new Error('broken')
       if (task.tenant_id !== 'waits') parentPort.postMessage({ id, kind: 'done', answer: { valid: true } })`,
      )
      for (const [tenant_id, message] of [
        ['ends', 'ended with code 3'],
        ['throws', 'broken'],
      ] as const) {
        const waiting = verify({ ...options, tenant_id: 'waits' })
        await Promise.all([
          expect(waiting).rejects.toThrow(message),
          expect(verify({ ...options, tenant_id })).rejects.toThrow(message),
        ])
        expect(await verify(options)).toEqual({ valid: true })
      }
    })
  },
)

describe.skipIf(!runs || process.platform !== 'linux')('a server that verifies', () => {
  it('does so in a thread that has a lower priority than the one that serves', { timeout: 120_000 }, async () => {
    const { database, api_key } = await databaseWithTenant()
    const eaas = await startEaas({ database })
    onTestFinished(() => void eaas.stop())
    const priorities = () =>
      readdirSync(`/proc/${eaas.pid}/task`).map((id) => {
        const stat = readFileSync(`/proc/${eaas.pid}/task/${id}/stat`, 'utf8')
        return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[16])
      })
    const own = priorities()[0] ?? 0
    expect(new Set(priorities())).toEqual(new Set([own]))
    const lower = Math.min(19, own + 10)
    const { status, body } = await callsOf(api_key.secret)(eaas.url, 'GET', '/v1/audit/verify')
    expect([status, body.valid]).toEqual([200, true])
    expect(priorities().filter((priority) => priority !== own)).toEqual(own === lower ? [] : [lower])
  })
})
