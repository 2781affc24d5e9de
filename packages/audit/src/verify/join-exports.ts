/** Joins exports of one log, such as the archives of its purges and an export of today, so that they verify as one. Pure. */
import { decodeHex } from '@eaas/protocol'
import { equalBytes } from '../crypto.js'
import { entryHash } from '../formats/chain.js'
import { type ExportHeader, headerLine, trailerLine } from '../formats/export.js'
import { followKeyChanges, listKeys } from '../formats/key-change.js'
import { ExportFault, isAnchor, isLinks, isTrailer, readEntry, readHeader, readTrailer } from './read-export.js'
import { readSigned } from './verify-export.js'

const ENTRY = /^\{"id":(\d{1,16}),.*"hash":"([0-9a-f]{64})"\}$/s

/**
 * Joins the lines of exports, each as `splitLines` gives them, of which each continues the one before: the header of the first, the
 * entries of all, and what is signed in the last one, which covers all entries by their hashes. What the others end with is checked here.
 * An export may repeat entries of the one before it, as the archive of a purge does that follows an interrupted one. Their trees, and
 * their anchors, are left out.
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
  const [first] = parts
  const last = parts.at(-1)
  if (!first || !last) return
  yield headerLine({ ...first.header, key_changes: last.header.key_changes }).slice(0, -1)
  yield* last.anchor
  const keys = listKeys(followKeyChanges(last.header.key_changes))
  let end: Position = { id: first.header.after_id, hash: first.header.after_hash }
  for (const part of parts) {
    assertContinuing(part.header, { end, last: last.header })
    let isEnded = false
    const before = end
    let repeated: Position = { id: part.header.after_id, hash: part.header.after_hash }
    for await (const line of linesOf(part)) {
      if (isEnded && part !== last) throw new ExportFault('there is something after the last line of an export')
      if (repeated.id < before.id) {
        repeated = readRepeated(line, { after: repeated, end: before, tenant_id: first.header.tenant_id })
        continue
      }
      if (isTrailer(line) && !isEnded) {
        isEnded = true
        if (part === last) yield withoutTree(line, keys)
        else keys.push(assertEnd(line, { end, keys, tenant_id: first.header.tenant_id }))
        continue
      }
      yield line
      end = positionOf(line) ?? end
    }
    if (!isEnded) {
      throw new ExportFault(`an export was cut short: it ends with entry ${end.id}, without the line that is signed`)
    }
  }
}

interface Position {
  id: number
  hash: Uint8Array
}

interface Start {
  header: ExportHeader
  /** the lines of an anchor and its links, if there are some */
  anchor: string[]
  /** the first line after those */
  next: string | undefined
  rest: AsyncGenerator<string>
}

async function readStart(rest: AsyncGenerator<string>): Promise<Start> {
  const read = async () => {
    const { value, done } = await rest.next()
    return done ? undefined : value
  }
  const header = readHeader((await read()) ?? '')
  const anchor: string[] = []
  let next = await read()
  while (next !== undefined && (isAnchor(next) || isLinks(next))) {
    anchor.push(next)
    next = await read()
  }
  return { header, anchor, next, rest }
}

async function* linesOf({ next, rest }: Start): AsyncGenerator<string> {
  if (next === undefined) return
  yield next
  yield* rest
}

/** What a line says of itself; `verifyExport` checks it. */
function positionOf(line: string): Position | undefined {
  const [, id, hash] = ENTRY.exec(line) ?? []
  return id === undefined || hash === undefined ? undefined : { id: Number(id), hash: decodeHex(hash) }
}

function assertContinuing(header: ExportHeader, { end, last }: { end: Position; last: ExportHeader }): void {
  const { tenant_id, after_id, after_hash, key_changes } = header
  if (tenant_id !== last.tenant_id)
    throw new ExportFault(`the exports are of several logs: ${tenant_id} and ${last.tenant_id}`)
  if (key_changes.some((change, at) => change !== last.key_changes[at]))
    throw new ExportFault('the exports state different changes of the signing key')
  if (after_id > end.id) throw new ExportFault(`entry ${end.id + 1} is missing`, end.id + 1)
  if (after_id === end.id) assertSame(after_hash, end)
}

function assertSame(hash: Uint8Array, end: Position): void {
  if (!equalBytes(hash, end.hash))
    throw new ExportFault(`an export does not continue the one before it, which ends with entry ${end.id}`)
}

/** Reads an entry that the exports before this one have too; that they are the same is known at the last of them. */
function readRepeated(
  line: string,
  { after, end, tenant_id }: { after: Position; end: Position; tenant_id: string },
): Position {
  const id = after.id + 1
  if (isTrailer(line)) {
    throw new ExportFault(
      `an export ends with entry ${after.id}, and the one before it with entry ${end.id}: give exports in the order of their entries, and leave out what another one holds`,
    )
  }
  const entry = readEntry(line, { tenant_id, id })
  if (entry.id !== id || !equalBytes(entry.hash, entryHash(after.hash, entry)))
    throw new ExportFault(`an export has another entry ${id} than the one before it`, id)
  if (id === end.id) assertSame(entry.hash, end)
  return { id, hash: entry.hash }
}

/** Checks what an export that is not the last one ends with; returns the key that signed it. */
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

/** One key signs all exports, unless statements lead from one to another. */
function assertKnown(publicKey: string, keys: readonly string[]): void {
  if (keys.length > 0 && !keys.includes(publicKey))
    throw new ExportFault('the exports were signed by keys of which no statement leads from one to the other')
}

/** The tree of the last export is over its own entries alone. */
function withoutTree(line: string, keys: readonly string[]): string {
  const trailer = readTrailer(line)
  assertKnown(trailer.public_key, keys)
  return trailerLine({ ...trailer, tree: undefined }).slice(0, -1)
}
