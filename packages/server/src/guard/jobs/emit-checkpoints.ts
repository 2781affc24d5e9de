// Writes checkpoints, a line of JSON each, to a file or standard output: of logs that grew, and of witnessed heads.
import type { Stats } from 'node:fs'
import { constants, type FileHandle, open, stat } from 'node:fs/promises'
import { encodePublicKey, signCheckpoint } from '@eaas/audit/formats'
import { encodeBase64 } from '@eaas/protocol'
import { equalBytes, type Head, type KeptHead } from '../../core/audit/formats/chain.js'
import type { Services } from '../../core/runner/operation.js'
import { findHead, listHeads } from '../../core/store/audit.js'
import { withDeadline } from '../../core/store/deadline.js'
import type { HeadWatch } from '../watch/head-watch.js'
import { watchesOf } from '../watch/head-watch.js'
import { isPast, sealedOf } from '../watch/judge.js'
import { type KeptLine, STANDARD_OUTPUT } from '../watch/kept-witnesses.js'

const LINE_FEED = 0x0a

/** The heads in the last lines that this process wrote, by tenant: two if the tenant has an alarm. */
export type WrittenHeads = Map<string, readonly KeptHead[]>

/**
 * Writes lines for logs that grew, and at least up to the heads that this process witnessed, whatever the list of heads
 * shows. Reports a tenant whose log cannot be signed, and goes on with the others. A head in `written` gets no second line.
 */
export function createCheckpointEmitter(
  services: Services,
  file: string,
  onError: (error: unknown, tenant_id: string) => void,
  written: WrittenHeads = new Map(),
): () => Promise<void> {
  const proven = new Map<string, Head>()
  const write = createLineWriter(file)
  return async () => {
    // Taken before the heads are read, since these may lack heads that are committed meanwhile.
    const witnessed = listWitnessed(watchesOf(services.committer).all())
    for (const listed of await listHeads(services.sql)) {
      const { tenant_id } = listed
      const least = witnessed.get(tenant_id)
      witnessed.delete(tenant_id)
      const isBehind = least !== undefined && !isPast(listed, least)
      // Proven when it was signed, as is a head that equals it in everything that the MAC covers.
      if (!isBehind && isEqual(listed, proven.get(tenant_id))) continue
      const signed = await signHead(services, tenant_id, isBehind ? async () => listed : findHead).catch(
        (error: unknown) => void onError(error, tenant_id),
      )
      if (!signed) continue
      const { line, head } = signed
      const setWritten = () => {
        written.set(tenant_id, [head])
        proven.set(tenant_id, head)
      }
      if (written.get(tenant_id)?.some((other) => isEqual(head, other))) setWritten()
      else await write(line, setWritten)
    }
    for (const [tenant_id, witness] of witnessed) {
      const head = sealedOf(witness) ?? witness
      if (written.get(tenant_id)?.some((other) => isSame(head, other))) continue
      await write(keep(services, tenant_id, head), () => written.set(tenant_id, [head]))
    }
  }
}

// For a tenant with an alarm, the line of its witnessed head was written when the alarm became known (chain.md 10).
function listWitnessed(watches: Iterable<HeadWatch>): Map<string, KeptHead> {
  return new Map(
    [...watches].flatMap(({ tenant_id, witnessed, alarm }) => (witnessed && !alarm ? [[tenant_id, witnessed]] : [])),
  )
}

function isEqual(head: Head, other: KeptHead | undefined): boolean {
  return (
    isSame(head, other) &&
    head.created_at === other?.created_at &&
    other.mac !== undefined &&
    equalBytes(head.mac, other.mac)
  )
}

/**
 * Each call writes, for each tenant, lines of its witnessed head and of its alarm's head, unless its last lines are the
 * same. So the next start raises the alarm again even if its row was deleted. If a log was followed in part, the line
 * is of the last head with a MAC: otherwise the next start could not tell on which side of an accepted rollback it is.
 */
export function createWitnessEmitter(
  { signingKey, now }: Pick<Services, 'signingKey' | 'now'>,
  file: string,
  written: WrittenHeads = new Map(),
): (watches: Iterable<Pick<HeadWatch, 'tenant_id' | 'alarm' | 'witnessed'>>) => Promise<void> {
  const write = createLineWriter(file)
  return async (watches) => {
    for (const { tenant_id, alarm, witnessed } of watches) {
      const before = written.get(tenant_id) ?? []
      const heads: KeptHead[] = []
      // For the same entry, an alarm may have a lower, unproven policy version, and its line would contradict the other.
      for (const witness of [witnessed, alarm?.witness]) {
        const head = witness && (sealedOf(witness) ?? witness)
        if (!head || heads.some(({ last_id, hash }) => last_id === head.last_id && equalBytes(hash, head.hash)))
          continue
        const setWritten = () => written.set(tenant_id, [...(written.get(tenant_id) ?? []), head])
        if (!before.some((other) => isSame(head, other)))
          await write(keep({ signingKey, now }, tenant_id, head), setWritten)
        heads.push(head)
      }
      written.set(tenant_id, heads)
    }
  }
}

function isSame(head: KeptHead, other: KeptHead | undefined): boolean {
  return (
    head.last_id === other?.last_id && head.policy_version === other.policy_version && equalBytes(head.hash, other.hash)
  )
}

/** First checks that the log continues to and from the witnessed head. @throws ChainAlarmError, TamperedRowError */
export async function signHead(
  services: Services,
  tenant_id: string,
  find: typeof findHead = findHead,
): Promise<{ line: KeptLine; head: Head }> {
  const { sql, states, committer } = services
  const state = await states.find(tenant_id)
  if (!state) throw new Error('the database has a head for a tenant that does not exist')
  if (state.fault) throw state.fault
  const watch = watchesOf(committer).get(tenant_id)
  watch.assertNoAlarm()
  const head = await watch.read(sql, state.auditKey, find)
  const line = keep(services, tenant_id, head)
  watch.witness(head)
  return { line, head }
}

function keep({ signingKey, now }: Pick<Services, 'signingKey' | 'now'>, tenant_id: string, head: KeptHead): KeptLine {
  const { last_id, hash, policy_version, created_at, mac } = head
  const checkpoint = signCheckpoint(signingKey, { tenant_id, last_id, hash, created_at: new Date(now()).toISOString() })
  const sealed = created_at && mac ? { head: { created_at, mac: encodeBase64(mac) } } : {}
  const key_change = signingKey.changes.at(-1)
  const signer = { public_key: encodePublicKey(signingKey), ...(key_change !== undefined && { key_change }) }
  return { tenant_id, policy_version, checkpoint, ...signer, ...sealed }
}

/** In milliseconds, how long writing a line may take, since rounds of checkpoints and the stop of a server wait for it. */
const WRITE_DEADLINE_MS = 4_000

/** The sink does not accept the line, as a full pipe or a file server that hangs. The line may still be written. */
class StuckSinkError extends Error {
  override readonly name = 'StuckSinkError'

  constructor(file: string) {
    const sink = file === STANDARD_OUTPUT ? 'standard output' : file
    super(
      `${sink} (EAAS_CHECKPOINT_FILE${file === STANDARD_OUTPUT ? '=-' : ''}) takes nothing: see that what reads it, or holds it, goes on. Until then no checkpoint is kept`,
    )
  }
}

/** Writes one line at a time, so that a file that hangs holds only one thread. */
type Sink = { last: Promise<void>; isStuck: boolean }

const sinks = new Map<string, Sink>()

function sinkOf(file: string): Sink {
  const known = sinks.get(file)
  if (known) return known
  const sink = { last: Promise.resolve(), isStuck: false }
  sinks.set(file, sink)
  return sink
}

/** If so, Node's own exit would wait for the file forever. */
export function isSinkStuck(): boolean {
  return [...sinks.values()].some(({ isStuck }) => isStuck)
}

/** Calls `onWritten` once the line is on disk, even late, so that a slow file makes progress. @throws StuckSinkError */
export function createLineWriter(
  file: string,
  { deadlineMs = WRITE_DEADLINE_MS } = {},
): (line: KeptLine, onWritten?: () => void) => Promise<void> {
  const sink = sinkOf(file)
  const append = async (line: KeptLine) => {
    const text = `${JSON.stringify(line)}\n`
    if (file === STANDARD_OUTPUT) return print(text)
    const found = await stat(file).catch(() => undefined) // appending reports the error
    const held = found?.isFIFO() ? await openIfRead(file) : undefined
    try {
      const isCut = found?.isFile() && (await isCutShort(file, found))
      await appendWhole(file, `${isCut ? '\n' : ''}${text}`)
    } finally {
      await held?.close()
    }
  }
  return async (line, onWritten) => {
    if (sink.isStuck) throw new StuckSinkError(file)
    const { last } = sink
    let isLate = false
    const writing = last.then(async () => {
      if (isLate) return
      await append(line)
      onWritten?.()
    })
    const release = () => {
      sink.isStuck = false
    }
    sink.last = writing.then(release, release)
    await withDeadline(writing, deadlineMs, () => {
      isLate = sink.isStuck = true
      return new StuckSinkError(file)
    })
  }
}

// A full disk takes only part of the line. That part is cut off, unless another process has appended after it.
async function appendWhole(file: string, text: string): Promise<void> {
  const bytes = Buffer.from(text)
  const handle = await open(file, 'a', 0o644)
  try {
    const before = await handle.stat()
    let written = 0
    try {
      while (written < bytes.length) written += (await handle.write(bytes, written)).bytesWritten
      if (!before.isFIFO()) await handle.sync()
    } catch (error) {
      const { size } = await handle.stat()
      if (before.isFile() && size === before.size + written) await handle.truncate(before.size)
      throw error
    }
  } finally {
    await handle.close()
  }
}

// Opening a pipe without a reader would block a thread, and with it the end of a command.
async function openIfRead(pipe: string): Promise<FileHandle> {
  try {
    return await open(pipe, constants.O_WRONLY | constants.O_NONBLOCK)
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === 'ENXIO' ? new StuckSinkError(pipe) : error
  }
}

// The next line must begin on a line of its own, whichever process wrote the truncated one.
async function isCutShort(file: string, { size }: Stats): Promise<boolean> {
  if (size === 0) return false
  const handle = await open(file)
  try {
    const last = Buffer.alloc(1)
    await handle.read(last, 0, 1, size - 1)
    return last[0] !== LINE_FEED
  } finally {
    await handle.close()
  }
}

// A line without a reader counts as not written, and is tried again.
function print(line: string): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(line, (error) => (error ? reject(error) : resolve()))
  })
}
