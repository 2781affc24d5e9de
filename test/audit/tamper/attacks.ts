// What the attacks on a tenant's log share: the attacker has the whole database and no key. Each attack starts from the same rows,
// the server and a verifier that shares no code with it must report it alike, and then it is undone. chain.md 9 says which fault and
// which entry they report. What the server exports after an attack is given to both offline verifiers, with a checkpoint from before it.
import { afterAll, afterEach, beforeAll, expect } from 'vitest'
import { genesisHash } from '../../../packages/audit/src/formats/chain.js'
import { readCheckpoint } from '../../../packages/audit/src/formats/checkpoint.js'
import { splitLines } from '../../../packages/audit/src/verify/split-lines.js'
import { type ExportVerdict, verifyExport } from '../../../packages/audit/src/verify/verify-export.js'
import { verifyLog } from '../../../packages/server/src/core/audit/verify/verify.js'
import { type Entry, entriesOf } from '../../independent/stored.js'
import { isChainSound, readNote, verifyIndependently } from '../../independent/verifier.js'
import { makeScene, type Scene, type Server, type Target } from '../../support/audit/audit-scene.js'
import { comparable, findObstacleToVerifier, type VerifierJob, verifyElsewhere } from '../verify/other-verifier.js'

/** False in the run that leaves parts out of the server's MACs (slow/mutation.test.ts): there the tests must fail without a second verifier. */
const hasSecondVerifier = process.env.EAAS_TEST_ONE_VERIFIER !== '1'

/** The scene that is attacked; defined while a test runs. */
export let scene: Scene

/** The server that runs while a log is attacked, also in the next test: without an alarm, an attack that is undone leaves nothing in it. */
const running = new Map<Target, Server>()

/** Makes the scene for the tests of a file, and restores it after each of them. */
export function useScene(): void {
  beforeAll(async () => {
    scene = await makeScene()
    running.clear()
  }, 120_000)
  afterEach(async () => {
    scene?.endServers(running.values())
    await scene?.restore('final')
  })
  afterAll(() => scene?.close())
  afterAll(expectSameElsewhere)
  // To a server that has reported the attacks the restored log is valid again.
  afterAll(async () => {
    for (const [target, server] of running) if (server.alarms.length === 0) await expectValid(target, server)
  })
}

export type Log = 'whole' | 'purged'
export const LOGS: readonly Log[] = ['whole', 'purged']

interface Report {
  valid: boolean
  reason?: string | undefined
  broken_at?: number | undefined
}
export type Fault = Required<Pick<Report, 'reason' | 'broken_at'>>

export interface Expectation {
  /** the attack leaves no head that the server wrote: the server then refuses every call but the verification, and raises an alarm */
  headIsBad?: boolean
  /** the attack deletes what a newly started server needs to admit the caller */
  isShutOut?: boolean
  /** the chain alone does not show it (packages/server/docs/what-is-detected.md, first column); by default so for anything but entries */
  isBeyondChain?: boolean
}

/** A checkpoint that was taken earlier and kept outside of the database. */
export interface Kept {
  note: string
  publicKey: string
  last_id: number
  hash: string
}

export async function takeCheckpoint(target: Pick<Target, 'secret'>, server = scene.server()): Promise<Kept> {
  const { body } = await server.call(target.secret, 'GET', '/v1/audit/checkpoint')
  const { last_id, hash } = readCheckpoint(body.checkpoint, body.public_key)
  return { note: body.checkpoint, publicKey: body.public_key, last_id, hash: Buffer.from(hash).toString('hex') }
}

interface Known {
  /** a checkpoint that the log is compared with */
  kept?: Kept
  /** the entries that there are now, for the verifier that shares no code with the server; it reads them by default */
  existing?: readonly Entry[]
}

/** Expects both verifiers to report exactly this. */
export async function expectReported(target: Target, expected: Report, { kept, existing }: Known = {}): Promise<void> {
  const { tenant_id, auditKey } = target
  const checkpoint = kept && readCheckpoint(kept.note, kept.publicKey)
  const { sql, storeKeys } = scene.service.services
  expect(reportOf(await verifyLog(sql, { tenant_id, auditKey, storeKeys, checkpoint }))).toEqual(expected)
  if (!hasSecondVerifier) return
  const second = {
    tenant_id,
    auditKey: auditKey.export(),
    storeKeys: new Map([...storeKeys.keys].map(([number, key]) => [number, key.export()])),
    checkpoint: kept && readNote(kept.note, kept.publicKey),
    existing,
  }
  expect(reportOf(await verifyIndependently(scene.sql, second))).toEqual(expected)
}

/** The exports of a file's tests, each once: what they were judged by, and the server's verdict. */
const judged = new Map<string, { job: VerifierJob; verdict: ExportVerdict }>()

/** Verifies an export by a checkpoint offline, by the server's program at once and by the other one after the tests of the file. */
export async function judgeExport(file: string, { note: checkpoint, publicKey }: Kept): Promise<ExportVerdict> {
  const name = `${checkpoint}\n${file}`
  const known = judged.get(name)
  if (known) return known.verdict
  const job = { file: Buffer.from(file), publicKey, checkpoint }
  const verdict = await verifyExport(splitLines([job.file]), { publicKey, checkpoint })
  judged.set(name, { job, verdict })
  return verdict
}

// All files in one process of the other language: starting one for each attack would take longer than the attacks.
async function expectSameElsewhere(): Promise<void> {
  const all = [...judged.values()]
  judged.clear()
  if (!hasSecondVerifier || all.length === 0 || findObstacleToVerifier()) return
  expect((await verifyElsewhere(all.map(({ job }) => job))).map(comparable)).toEqual(
    all.map(({ verdict }) => comparable(verdict)),
  )
}

/** Reads what the server exports; undefined where it refuses to, or ends before the last line. */
export async function readExport(server: Server, { secret }: Pick<Target, 'secret'>): Promise<string | undefined> {
  const { status, body } = await server
    .call(secret, 'GET', '/v1/audit/export')
    .catch(() => ({ status: 0, body: undefined }))
  return status === 200 ? body : undefined
}

interface Genuine {
  /** what the first entry that exists follows from */
  start: { id: number; hash: Buffer }
  kept: Kept
  file: string | undefined
}
const genuine = new WeakMap<Target, Genuine>()

/** Takes what a log is before an attack, once for each log: the scene is restored after each test. */
async function genuineOf(target: Target, server: Server): Promise<Genuine> {
  const known = genuine.get(target)
  if (known) return known
  const taken = {
    start: await startOf(target),
    kept: await takeCheckpoint(target, server),
    file: await readExport(server, target),
  }
  genuine.set(target, taken)
  return taken
}

/** Picks the fields of a verification's answer that the tests compare. */
export const reportOf = ({ valid, reason, broken_at }: Report): Report => ({ valid, reason, broken_at })

/** Makes the attack under a running server. That server, a newly started one and the second verifier must report the same. */
export async function expectNoticed(
  target: Target,
  attack: () => Promise<unknown>,
  { headIsBad = false, isShutOut = false, isBeyondChain, ...fault }: Fault & Expectation,
): Promise<void> {
  const [running, fresh] = [await runningServer(target), scene.server()]
  const { start, kept, file: genuine } = await genuineOf(target, running)
  await attack()
  const expected = { valid: false, ...fault }
  const existing = await existingEntries(target)
  await expectReported(target, expected, { existing })
  if (hasSecondVerifier) {
    const question = { ...target, auditKey: target.auditKey.export(), existing }
    const isSound = await isChainSound(scene.sql, question, start)
    expect({ isSound }).toEqual({ isSound: isBeyondChain ?? /^(row|mark|head|rights)_/.test(fault.reason ?? '') })
  }
  for (const server of isShutOut ? [running] : [running, fresh]) {
    const { status, body } = await verifyBy(server, target)
    expect([status, reportOf(body)]).toEqual([200, expected])
    if (!headIsBad) continue
    const other = await server.call(target.secret, 'GET', '/v1/keys')
    expect([other.status, other.body.code, server.alarms.length]).toEqual([500, 'E_AUDIT_NOT_WRITTEN', 1])
  }
  if (isShutOut) expect((await verifyBy(fresh, target)).status).toBeGreaterThanOrEqual(400)
  // Both verifiers offline accept exactly the log of before, byte for byte: what an attack leaves in it unchanged can't show in a file.
  const file = await readExport(isShutOut ? running : fresh, target)
  if (!hasSecondVerifier || file === undefined) return
  const verdict = await judgeExport(file, kept)
  expect(verdict).toMatchObject(file === genuine ? { valid: true, checkpoint_compared: true } : { valid: false })
}

const verifyBy = (server: Server, { secret }: Target) => server.call(secret, 'GET', '/v1/audit/verify')

async function expectValid(target: Target, server: Server): Promise<void> {
  expect(await verifyBy(server, target)).toMatchObject({ status: 200, body: { valid: true } })
}

/** Finds the running server of a log, or starts one, to which the log is valid. */
async function runningServer(target: Target): Promise<Server> {
  const known = running.get(target)
  if (known?.alarms.length === 0) return known
  const server = scene.server()
  await expectValid(target, server)
  running.set(target, server)
  return server
}

/** Reads all entries, those too whose ids no server writes. */
async function existingEntries({ tenant_id }: Target): Promise<Entry[]> {
  const entries: Entry[] = []
  for await (const entry of entriesOf(scene.sql, tenant_id, Number.MIN_SAFE_INTEGER)) entries.push(entry)
  return entries
}

/** Finds the position before the first entry that exists. */
async function startOf({ tenant_id, purged_through }: Target): Promise<{ id: number; hash: Buffer }> {
  const [mark] = await run('select hash from purge_marks where tenant_id = $1 and purged_through = $2', [
    tenant_id,
    purged_through,
  ])
  return { id: purged_through, hash: Buffer.from(mark?.hash ?? genesisHash(tenant_id)) }
}

export const of = (log: Log): Target => scene[log]
export const run = (text: string, values: (string | number | Uint8Array | null)[] = []) =>
  scene.sql.unsafe(text, values)
export const firstId = ({ purged_through }: Target) => purged_through + 1
export const lastId = ({ entries }: Target) => entries.at(-1)?.id ?? 0
export const middleId = ({ entries }: Target) => entries[Math.floor(entries.length / 2)]?.id ?? 0
export const remove = (tenant_id: string, condition: string, ...ids: number[]) =>
  run(`delete from audit_log where tenant_id = $1 and ${condition}`, [tenant_id, ...ids])
export const editHead = ({ tenant_id }: Target, set: string) =>
  run(`update heads set ${set} where tenant_id = $1`, [tenant_id])

/** Finds the last entry about a row (chain.md 9); the id after the last entry if there is none. */
export function tellsOf(target: Target, isAbout: (entry: Entry) => boolean): number {
  return target.entries.filter(isAbout).at(-1)?.id ?? lastId(target) + 1
}
