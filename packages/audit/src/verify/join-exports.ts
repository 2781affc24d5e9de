/** Joins exports of one log, such as the archives of its purges and a new export, so that they verify as one. Pure. */
import { decodeHex } from '@eaas/protocol'
import { equalBytes } from '../crypto.js'
import { type ExportHeader, headerLine, trailerLine } from '../formats/export.js'
import { followKeyChanges, listKeys } from '../formats/key-change.js'
import { ExportFault, isAnchor, isLinks, isTrailer, readHeader, readTrailer } from './read-export.js'
import { readSigned } from './verify-export.js'

const ENTRY = /^\{"id":(\d{1,16}),.*"hash":"([0-9a-f]{64})"\}$/s

/**
 * Joins exports of one log, each given as the lines that `splitLines` yields, in the order in which they end. Yields
 * the header of the export that begins first, the entries of all, and the signed line of the last one, which covers
 * all entries by their hashes. The signed lines of the others are checked here. Exports may overlap, as archives do
 * after an interrupted purge, but all must have the same line for an entry. All trees are left out, and all anchors
 * but the last export's. A single export stays unchanged.
 *
 * `verifyExport` reports what this throws, as it reports a missing entry.
 *
 * @throws ExportFault, CheckpointError
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
  const { tenant_id, key_changes } = last.header
  yield headerLine({ ...first.header, key_changes }).slice(0, -1)
  yield* last.anchor
  assertOneLog(parts, last.header)
  const keys = listKeys(followKeyChanges(key_changes))
  let end: Position = { id: first.header.after_id, hash: first.header.after_hash }
  let left = parts
  while (left.length > 0) {
    const { entry, ended } = await readNext(left, end)
    for (const { part, trailer } of ended) {
      if (part !== left[0]) {
        throw new ExportFault(
          `an export ends with entry ${end.id}, and the one before it with a later one: give exports in the order in which they end`,
        )
      }
      left = left.slice(1)
      if (part === last) yield withoutTree(trailer, keys)
      else keys.push(assertEnd(trailer, { end, keys, tenant_id }))
      const more = await part.read()
      if (more === undefined) continue
      if (part !== last) throw new ExportFault('there is something after the last line of an export')
      yield more
    }
    if (entry !== undefined) {
      yield entry
      end = positionOf(entry) ?? end
    }
  }
}

/** Reads the next line of each export that does not begin later: the entry after `end`, or the signed line. */
async function readNext(
  parts: readonly Part[],
  end: Position,
): Promise<{ entry: string | undefined; ended: { part: Part; trailer: string }[] }> {
  let entry: string | undefined
  const ended: { part: Part; trailer: string }[] = []
  for (const part of parts) {
    const { after_id, after_hash } = part.header
    if (after_id > end.id) continue
    if (after_id === end.id) assertSame(after_hash, end)
    const line = await part.read()
    if (line === undefined)
      throw new ExportFault(`an export was cut short: it ends with entry ${end.id}, without the line that is signed`)
    if (isTrailer(line)) ended.push({ part, trailer: line })
    else if (line === (entry ?? line)) entry = line
    else throw new ExportFault(`an export has another entry ${end.id + 1} than the one before it`, end.id + 1)
  }
  if (entry === undefined && ended.length === 0) throw new ExportFault(`entry ${end.id + 1} is missing`, end.id + 1)
  return { entry, ended }
}

interface Position {
  id: number
  hash: Uint8Array
}

/** One of the exports. */
interface Part {
  header: ExportHeader
  /** the lines of an anchor and its links, if any */
  anchor: readonly string[]
  /** Reads the next of the lines that follow; undefined after the last one. */
  read(): Promise<string | undefined>
  rest: AsyncGenerator<string>
}

async function readStart(rest: AsyncGenerator<string>): Promise<Part> {
  const next = async (): Promise<string | undefined> => {
    const { value, done } = await rest.next()
    return done ? undefined : value
  }
  const header = readHeader((await next()) ?? '')
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
  return { header, anchor, read, rest }
}

/** Reads the id and hash that a line states; `verifyExport` checks them. */
function positionOf(line: string): Position | undefined {
  const [, id, hash] = ENTRY.exec(line) ?? []
  return id === undefined || hash === undefined ? undefined : { id: Number(id), hash: decodeHex(hash) }
}

function assertOneLog(parts: readonly Part[], { tenant_id, key_changes }: ExportHeader): void {
  for (const { header } of parts) {
    if (header.tenant_id !== tenant_id)
      throw new ExportFault(`the exports are of several logs: ${header.tenant_id} and ${tenant_id}`)
    if (header.key_changes.some((change, at) => change !== key_changes[at]))
      throw new ExportFault('the exports state different changes of the signing key')
  }
}

function assertSame(hash: Uint8Array, end: Position): void {
  if (!equalBytes(hash, end.hash))
    throw new ExportFault(`an export does not continue the one before it after entry ${end.id}`)
}

/** Checks the signed line of an export other than the last; returns the key that signed it. */
function assertEnd(
  line: string,
  { end, keys, tenant_id }: { end: Position; keys: readonly string[]; tenant_id: string },
): string {
  const trailer = readTrailer(line)
  assertKnown(trailer.public_key, keys)
  const signed = readSigned(trailer)
  if (signed.tenant_id !== tenant_id || signed.last_id !== end.id || !equalBytes(signed.hash, end.hash))
    throw new ExportFault(`what was signed does not agree with entry ${end.id}, the last one of an export`)
  return trailer.public_key
}

/** Requires that one key signed all exports, unless statements lead from one key to another. */
function assertKnown(publicKey: string, keys: readonly string[]): void {
  if (keys.length > 0 && !keys.includes(publicKey))
    throw new ExportFault('the exports were signed by keys of which no statement leads from one to the other')
}

/** Removes the tree of the last export, which covers only its own entries. */
function withoutTree(line: string, keys: readonly string[]): string {
  const trailer = readTrailer(line)
  assertKnown(trailer.public_key, keys)
  return trailerLine({ ...trailer, tree: undefined }).slice(0, -1)
}
