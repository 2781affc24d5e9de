/** Joins exports of one log, such as the archives of its purges and a new export, so that they verify as one. Pure. */
import { decodeHex, INSTALLATION_ID } from '@eaas/protocol'
import { equalBytes } from '../crypto.js'
import { type ExportHeader, type ExportTrailer, headerLine, trailerLine } from '../formats/export.js'
import { followKeyChanges, listKeys, readInstallation } from '../formats/key-change.js'
import type { Stretch } from '../formats/stretch.js'
import { AcceptedRollbacks } from './accepted-rollbacks.js'
import { ANOTHER_LOG, NOT_ACCEPTED } from './compare-checkpoints.js'
import {
  ExportFault,
  isAnchor,
  isLinks,
  isTrailer,
  NO_INSTALLATION,
  readEntry,
  readHeader,
  readTrailer,
} from './read-export.js'
import { assertStates, readSigned } from './verify-export.js'

const ENTRY = /^\{"id":(\d{1,16}),.*"hash":"([0-9a-f]{64})"\}$/s

/**
 * Joins exports of one log, each given as the lines that `splitLines` yields, in the order in which they end. Yields
 * the header of the export that begins first, the entries of all, and the signed line of the last one, which covers all
 * entries through their hashes. Checks the other signed lines here. Later entries must agree with where these say that
 * the log ended, and later statements of an installation's keys with theirs. Exports may overlap, as after an interrupted
 * purge. Leaves out all trees, and all anchors but the last export's. @throws ExportFault, CheckpointError, which
 * `verifyExport` reports
 */
export async function* joinExports(exports: readonly AsyncGenerator<string>[]): AsyncGenerator<string> {
  const [only, ...more] = exports
  if (only === undefined) return
  if (more.length === 0) {
    yield* only
    return
  }
  const parts = await Promise.all(exports.map(readStart))
  try {
    yield* join(parts)
  } finally {
    for (const { rest } of parts) await rest.return(undefined)
  }
}

async function* join(parts: readonly Part[]): AsyncGenerator<string> {
  const last = parts.at(-1)
  const [first] = parts.toSorted((a, b) => a.header.after_id - b.header.after_id)
  if (!first || !last) return
  const { tenant_id, key_changes, installation } = last.header
  yield headerLine({ ...first.header, key_changes, installation }).slice(0, -1)
  yield* last.anchor
  assertOneLog(parts, last.header)
  const keys = [...last.keys]
  const heads = new SignedHeads(tenant_id)
  let end: Position = { id: first.header.after_id, hash: first.header.after_hash }
  let left = parts
  while (left.length > 0) {
    const { entry, ended } = await readNext(left, end)
    for (const { part, line } of ended) {
      const trailer = readTrailer(line)
      if (part !== left[0])
        throw new ExportFault(
          `an export ends with entry ${end.id}, and the one before it with a later one: give exports in the order in which they end`,
        )
      left = left.slice(1)
      assertKnown(trailer.public_key, keys)
      assertStates(part, trailer.public_key)
      if (part === last) {
        yield trailerLine({ ...trailer, tree: undefined }).slice(0, -1) // the tree covers only this export's entries
        heads.end(readSigned(trailer))
      } else {
        heads.add(readEnd(trailer, { end, tenant_id }))
        keys.push(trailer.public_key)
      }
      const more = await part.read()
      if (more === undefined) continue
      if (part !== last) throw new ExportFault('there is something after the last line of an export')
      yield more
    }
    if (entry !== undefined) {
      yield entry
      end = positionOf(entry) ?? end
      heads.read(entry, end)
    }
  }
}

/** Reads the next line of each export that has begun: the entry after `end`, or the signed line. */
async function readNext(
  parts: readonly Part[],
  end: Position,
): Promise<{ entry: string | undefined; ended: { part: Part; line: string }[] }> {
  let entry: string | undefined
  const ended: { part: Part; line: string }[] = []
  for (const part of parts) {
    const { after_id, after_hash } = part.header
    if (after_id > end.id) continue
    if (after_id === end.id) assertSame(after_hash, end)
    const line = await part.read()
    if (line === undefined)
      throw new ExportFault(`an export was cut short: it ends with entry ${end.id}, without the line that is signed`)
    if (isTrailer(line)) ended.push({ part, line })
    else if (line === (entry ?? line)) entry = line
    else throw new ExportFault(`an export has another entry ${end.id + 1} than the one before it`, end.id + 1)
  }
  if (entry === undefined && ended.length === 0) throw new ExportFault(`entry ${end.id + 1} is missing`, end.id + 1)
  return { entry, ended }
}

type Position = { id: number; hash: Uint8Array }

interface Part {
  header: ExportHeader
  /** the keys that signed the log, oldest first; none if the export states no change of them */
  keys: readonly string[]
  /** the keys of the installation, oldest first; none if the export does not state them */
  installation: readonly string[]
  /** an anchor's line and its links, if any */
  anchor: readonly string[]
  read(): Promise<string | undefined>
  rest: AsyncGenerator<string>
}

async function readStart(rest: AsyncGenerator<string>): Promise<Part> {
  const next = async (): Promise<string | undefined> => {
    const { value, done } = await rest.next()
    return done ? undefined : value
  }
  const header = readHeader((await next()) ?? '')
  const keys = listKeys(followKeyChanges(header.key_changes))
  const installation = header.installation === undefined ? [] : readInstallation(header.installation)
  const anchor: string[] = []
  let line = await next()
  while (line !== undefined && (isAnchor(line) || isLinks(line))) {
    anchor.push(line)
    line = await next()
  }
  const read = async () => {
    const found = line ?? (await next())
    line = undefined
    return found
  }
  return { header, keys, installation, anchor, read, rest }
}

/** Reads the id and hash in a line, unverified: `verifyExport` checks them. */
function positionOf(line: string): Position | undefined {
  const [, id, hash] = ENTRY.exec(line) ?? []
  return id === undefined || hash === undefined ? undefined : { id: Number(id), hash: decodeHex(hash) }
}

function assertOneLog(parts: readonly Part[], { tenant_id, key_changes }: ExportHeader): void {
  for (const { header, installation, anchor } of parts) {
    if (installation.length === 0 && (anchor.length > 0 || tenant_id === INSTALLATION_ID))
      throw new ExportFault(NO_INSTALLATION)
    if (header.tenant_id !== tenant_id)
      throw new ExportFault(`the exports are of several logs: ${header.tenant_id} and ${tenant_id}`)
    if (header.key_changes.some((change, at) => change !== key_changes[at]))
      throw new ExportFault('the exports state different changes of the signing key')
  }
  assertGoOn(parts.map(({ installation }) => installation))
}

/** Each statement of an installation's keys must begin with the one before it. A former installation, before a move, has other keys. */
function assertGoOn(statements: readonly (readonly string[])[]): void {
  const known = new Map<string, readonly string[]>()
  for (const keys of statements) {
    for (const before of new Set(keys.map((key) => known.get(key) ?? [])))
      if (before.some((key, at) => key !== keys[at]))
        throw new ExportFault(
          'the exports state different keys of one installation, and not only further ones: give exports that the server made, or ask the operator who else has its key',
        )
    for (const key of keys) known.set(key, keys)
  }
}

function assertSame(hash: Uint8Array, end: Position): void {
  if (!equalBytes(hash, end.hash))
    throw new ExportFault(`an export does not continue the one before it after entry ${end.id}`)
}

/** Reads the signed line of an export before the last, and checks it against its last entry. */
function readEnd(trailer: ExportTrailer, { end, tenant_id }: { end: Position; tenant_id: string }): Stretch {
  const signed = readSigned(trailer)
  if (signed.tenant_id !== tenant_id || signed.last_id !== end.id || !equalBytes(signed.hash, end.hash))
    throw new ExportFault(`what was signed does not agree with entry ${end.id}, the last one of an export`)
  return signed
}

/** Checks that one key signed all exports, unless statements lead from one key to another. */
function assertKnown(publicKey: string, keys: readonly string[]): void {
  if (keys.length > 0 && !keys.includes(publicKey))
    throw new ExportFault('the exports were signed by keys of which no statement leads from one to the other')
}

/** Where the log ended when each export was signed. The log must continue from there, unless an operator accepted a loss. */
class SignedHeads {
  readonly #heads: Stretch[] = []
  readonly #replaced: Stretch[] = []
  readonly #rollbacks = new AcceptedRollbacks()

  constructor(private readonly tenant_id: string) {}

  add(head: Stretch): void {
    this.#heads.push(head)
  }

  read(line: string, { id, hash }: Position): void {
    for (const head of this.#heads)
      if (head.head_id === id && !equalBytes(head.head_hash, hash)) this.#replaced.push(head)
    if (line.includes('"audit.rollback_accepted"'))
      this.#rollbacks.read(readEntry(line, { tenant_id: this.tenant_id, id }))
  }

  /** @throws ExportFault if a head belongs to another history than the log */
  end(last: Stretch): void {
    const replaced = this.#replaced.find((head) => !this.#isExcused(head))
    if (replaced) {
      const { head_id, created_at } = replaced
      throw new ExportFault(
        `entry ${head_id} is not the one with which the log ended when an export was signed, at ${created_at}: ${ANOTHER_LOG}, and ${NOT_ACCEPTED}`,
        head_id,
      )
    }
    const isAhead = (head: Stretch) => head.head_id > last.head_id && head.created_at <= last.created_at
    const lost = this.#heads.find((head) => isAhead(head) && !this.#isExcused(head))
    if (lost)
      throw new ExportFault(
        `the log ended with entry ${lost.head_id} when an export was signed, at ${lost.created_at}, and with entry ${last.head_id} at ${last.created_at}: it was rolled back, and ${NOT_ACCEPTED}`,
        last.head_id + 1,
      )
  }

  #isExcused({ head_id, created_at }: Stretch): boolean {
    return this.#rollbacks.find({ last_id: head_id, created_at }) !== undefined
  }
}
