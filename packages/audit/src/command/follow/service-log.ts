/** Reads a tenant's log as the service exports it, and verifies each entry before it is delivered. */
import { readJson } from '@eaas/protocol'
import { equalBytes } from '../../crypto.js'
import { entryHash } from '../../formats/chain.js'
import { type Checkpoint, parseCheckpoint } from '../../formats/checkpoint.js'
import { CheckpointError } from '../../formats/signed-note.js'
import { type ExportedEntry, ExportFault, isTrailer, readEntry, readHeader } from '../../verify/read-export.js'
import { NO_LINE, splitLines } from '../../verify/split-lines.js'
import { purgedThrough, verifyExport } from '../../verify/verify-export.js'
import { CommandError } from '../files.js'
import type { Cursor, Reached } from './cursor.js'
import { BATCH_ENTRIES, type Batch, type Delivery } from './deliver.js'
import { reasonOf, send, TryAgainError, untilDone, withoutQuery } from './request.js'

export interface Service {
  url: URL
  /** called for each request, so that the API key may change meanwhile */
  readApiKey: () => Promise<string>
  publicKey: string | undefined
}

type Position = { id: number; hash: Uint8Array }
type Source = Pick<Delivery, 'signal' | 'tell'>

/** How long the service may take for a line, in milliseconds: it may pause one export while it serves others. */
const PATIENCE_MS = 60_000
/** Checkpoints and problem documents are shorter. */
const MOST_CHARACTERS = 65_536
/** The third part of an API key is the tenant's id. */
const API_KEY = /^eaas_sk_([0-9a-f]{8})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{4})([0-9a-f]{12})_/
const MOST_REFUSAL_CHARACTERS = 500
/** The number of exports that may break off after the same entry. Then the service cannot read on, as when an entry is missing. */
const MOST_BREAKS = 6

/** Delivers the log of the API key's tenant. If the cursor does not have it, delivery begins after `afterId`. */
export async function followService(service: Service, afterId: number, delivery: Delivery): Promise<void> {
  const { cursor, signal, tell, run } = delivery
  const attempts = { signal, tell, words: { again: 'asked again', done: 'the service answers again' } }
  const found = await untilDone(() => readHead(service, signal), attempts)
  if (!found) return
  const { tenant_id, last_id } = found.result
  const [, ...own] = API_KEY.exec(await service.readApiKey()) ?? []
  if (own.length > 0 && own.join('-') !== tenant_id)
    throw new CommandError(`the service answers for tenant ${tenant_id}, which is not that of the API key`)
  const position = (): Reached => cursor.get(tenant_id) ?? { id: afterId, hash: undefined }
  const { id } = position()
  if (id > last_id) throw wentBack(id, `the log ends at ${last_id}`)
  tell(`follows the log of tenant ${tenant_id}`)
  const log = openLog(service, tenant_id, { signal, tell })
  await run(async () => {
    const next = await untilDone(() => log.read(position()), attempts)
    return next?.result ?? { entries: [], reached: new Map() }
  })
}

/**
 * Only the end of an export is signed, so a long one is read twice: first to verify it and to note the hashes where
 * batches end, then for the entries, which must lead to these hashes.
 */
function openLog(
  service: Service,
  tenant_id: string,
  { signal, tell }: Source,
): { read(after: Reached): Promise<Batch> } {
  /** the ends of verified batches that are not delivered yet */
  let ends: Position[] = []
  /** the entries of the first such batch, if still in memory */
  let first: ExportedEntry[] = []
  /** the lines of the second reading */
  let lines: AsyncGenerator<string> | undefined
  /** the entry after which the last export broke off, and how often in a row */
  let broken = { id: -1, times: 0 }

  return {
    async read(after) {
      if (ends.length === 0) await verify(after)
      const [end] = ends
      if (!end) return { entries: [], reached: new Map() }
      const entries = first.length > 0 ? first : await readAgain(after, end)
      first = []
      ends.shift()
      if (ends.length === 0) await close()
      const reached: Cursor = new Map([[tenant_id, end]])
      return { entries, reached }
    },
  }

  async function verify(after: Reached): Promise<void> {
    const known: Position[] = []
    const begun: ExportedEntry[] = []
    let [header, last] = ['', '']
    let read = 0
    let purged = 0
    let isAtEnd = false
    async function* seen() {
      try {
        for await (const line of exportLines(service, after.id, signal)) {
          header ||= line
          last = line
          yield line
        }
        isAtEnd = true
      } catch (error) {
        throw error instanceof TryAgainError && header !== '' ? brokeOff(known.at(-1)?.id ?? after.id) : error
      }
    }
    const verdict = await verifyExport(seen(), {
      publicKey: service.publicKey,
      onEntry(entry) {
        const { id, hash } = entry
        if (read % BATCH_ENTRIES === 0) known.push({ id, hash })
        else known.splice(-1, 1, { id, hash })
        if (read < BATCH_ENTRIES) begun.push(entry)
        read += 1
        purged = Math.max(purged, purgedThrough(entry) ?? 0)
      },
    })
    const { valid, reason, tenant_id: owner, trusted_key } = verdict
    // A proxy may end an answer before the service does.
    if (last === NO_LINE || (isAtEnd && !isTrailer(last))) throw brokeOff(known.at(-1)?.id ?? after.id)
    broken = { id: -1, times: 0 }
    if (!valid) throw new CommandError(`the export of the log is not valid, and not delivered: ${reason}`)
    if (owner !== tenant_id) throw new CommandError(`the service answers for tenant ${owner} now, and not ${tenant_id}`)
    if (service.publicKey !== undefined && !trusted_key)
      throw new CommandError(
        'the signing key was replaced: compare the new one with the operator, and give it with --public-key',
      )
    const { after_id, after_hash } = readHeader(header)
    if (after_id < after.id || (after_id === after.id && after.hash && !equalBytes(after.hash, after_hash)))
      throw wentBack(after.id, 'the log has another entry there')
    if (after_id > after.id) {
      const skipped = `entries ${after.id + 1} to ${after_id}`
      // A purge during the export may have removed more.
      if (purged < after_id) throw withheld(skipped)
      tell(`${skipped} of the log ${tenant_id} were purged and are left out`)
    }
    ends = known
    first = begun
  }

  function brokeOff(id: number): Error {
    broken = { id, times: broken.id === id ? broken.times + 1 : 1 }
    const what = `the export broke off behind entry ${id}`
    if (broken.times < MOST_BREAKS) return new TryAgainError(what)
    return new CommandError(
      `${what} ${broken.times} times in a row: the service may be unable to read what follows. Verify the log: GET /v1/audit/verify, or eaas audit verify beside the server`,
    )
  }

  async function readAgain(after: Reached, end: Position): Promise<ExportedEntry[]> {
    try {
      lines ??= await openLines(after)
      const entries: ExportedEntry[] = []
      let hash = after.hash ?? new Uint8Array()
      for (let id = after.id + 1; id <= end.id; id++) {
        const entry = readEntry(await nextLine(lines), { tenant_id, id })
        hash = entryHash(hash, entry)
        if (entry.id !== id || !equalBytes(entry.hash, hash)) throw new ExportFault('an entry is another one')
        entries.push(entry)
      }
      if (!equalBytes(hash, end.hash)) throw new ExportFault('the entries lead elsewhere')
      return entries
    } catch (error) {
      await close()
      if (!(error instanceof ExportFault)) throw error // a broken connection: verified batches remain verified
      ends = []
      throw new TryAgainError('the log changed while it was read')
    }
  }

  async function openLines({ id, hash }: Reached): Promise<AsyncGenerator<string>> {
    const opened = exportLines(service, id, signal)
    const { after_id, after_hash } = readHeader(await nextLine(opened))
    if (after_id === id && hash && equalBytes(after_hash, hash)) return opened
    await opened.return(undefined)
    throw new ExportFault('the entries before are others, or were purged')
  }

  async function close(): Promise<void> {
    await lines?.return(undefined)
    lines = undefined
  }
}

async function nextLine(lines: AsyncGenerator<string>): Promise<string> {
  const { value, done } = await lines.next()
  if (done) throw new TryAgainError('the export broke off')
  return value
}

async function readHead(service: Service, stopping: AbortSignal): Promise<Checkpoint> {
  const url = urlOf(service, 'v1/audit/checkpoint')
  const patience = createPatience(stopping)
  patience.begin()
  try {
    const { checkpoint } = JSON.parse(
      await readText(await get(service, url, patience.signal), url, patience.signal),
    ) as { checkpoint?: unknown }
    return parseCheckpoint(String(checkpoint))
  } catch (error) {
    if (!(error instanceof CheckpointError || error instanceof SyntaxError)) throw error
    throw new CommandError(`${withoutQuery(url)} did not answer with a checkpoint: is it the service?`)
  } finally {
    patience.end()
  }
}

/** Yields the lines of an export of the entries after `after_id`. @throws TryAgainError if the connection breaks */
async function* exportLines(service: Service, after_id: number, stopping: AbortSignal): AsyncGenerator<string> {
  const url = urlOf(service, 'v1/audit/export', { after_id: String(after_id) })
  const patience = createPatience(stopping)
  try {
    patience.begin()
    const lines = splitLines(chunksOf(await get(service, url, patience.signal), url, patience.signal))
    for (;;) {
      patience.begin()
      const { value, done } = await lines.next()
      patience.pause()
      if (done) return
      yield value
    }
  } finally {
    patience.end()
  }
}

/** Creates a request's signal, which aborts when the follower is stopped, or a step takes too long. */
function createPatience(stopping: AbortSignal) {
  const controller = new AbortController()
  const abort = () => controller.abort()
  let timer: NodeJS.Timeout | undefined
  if (stopping.aborted) abort()
  stopping.addEventListener('abort', abort)
  const pause = () => clearTimeout(timer)
  return {
    signal: controller.signal,
    begin() {
      pause()
      timer = setTimeout(abort, PATIENCE_MS)
    },
    pause,
    end() {
      pause()
      stopping.removeEventListener('abort', abort)
    },
  }
}

async function* chunksOf({ body }: Response, url: URL, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  if (!body) return
  const reader = body.getReader()
  // Node 20 ignores a request's signal once the answer has begun, so it is handled here.
  const cancel = () => void reader.cancel().catch(() => undefined)
  signal.addEventListener('abort', cancel)
  try {
    for (;;) {
      const { done, value } = await reader.read().catch((error: Error) => {
        throw brokenOff(url, error)
      })
      if (signal.aborted) throw brokenOff(url, signal.reason)
      if (done) return
      yield value
    }
  } finally {
    signal.removeEventListener('abort', cancel)
    cancel() // the rest of the answer
  }
}

async function readText(response: Response, url: URL, signal: AbortSignal): Promise<string> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of chunksOf(response, url, signal)) {
    text += decoder.decode(chunk, { stream: true })
    if (text.length > MOST_CHARACTERS)
      throw new CommandError(
        `${withoutQuery(url)} answered ${response.status} at too great a length: is it the service?`,
      )
  }
  return text
}

/** Joins a path to the service's URL, whose own path a proxy may require. */
function urlOf({ url }: Service, path: string, query: Record<string, string> = {}): URL {
  const full = new URL(path, `${url.origin}${url.pathname.replace(/\/?$/, '/')}`)
  full.search = new URLSearchParams(query).toString()
  return full
}

async function get({ readApiKey }: Service, url: URL, signal: AbortSignal): Promise<Response> {
  const response = await send(url, { token: await readApiKey(), signal })
  if (response.ok) return response
  throw new CommandError(
    `${withoutQuery(url)} answered ${response.status}${detailOf(await readText(response, url, signal))}`,
  )
}

function detailOf(text: string): string {
  const { detail } = Object(readJson(text)) as { detail?: unknown }
  return typeof detail === 'string' ? `: ${detail.slice(0, MOST_REFUSAL_CHARACTERS)}` : ''
}

function brokenOff(url: URL, error: unknown): TryAgainError {
  return new TryAgainError(`the connection to ${url.origin} broke off (${reasonOf(error as Error)})`)
}

function withheld(skipped: string): CommandError {
  return new CommandError(
    `the export lacks ${skipped}, and no audit.purge in it says that they were purged: what stands between here and the service may have asked it for less. Nothing was delivered: set EAAS_URL to the service itself and start again, and examine the proxy`,
  )
}

function wentBack(id: number, what: string): CommandError {
  return new CommandError(`after entry ${id}, which was delivered, nothing can follow: ${what}. It went back`)
}
