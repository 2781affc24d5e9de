/** Reads the lines of an export, see export.md 1: each must be spelt exactly as the server writes it. Pure. */
import { decodeHex, INSTALLATION_ID, isUuid, isWellFormed, parseRfc3339, readJson } from '@eaas/protocol'
import * as z from 'zod/mini'
import type { AuditEntry } from '../formats/chain.js'
import {
  anchorLine,
  EXPORT_FORMAT,
  type ExportAnchor,
  type ExportHeader,
  type ExportLinks,
  type ExportTrailer,
  entryLine,
  headerLine,
  linksLine,
  trailerLine,
} from '../formats/export.js'
import { COMPRESSED } from './split-lines.js'

/** Thrown for a line that an export must not contain, with the id of the entry if the fault is in an entry. */
export class ExportFault extends Error {
  override readonly name = 'ExportFault'

  constructor(
    readonly reason: string,
    readonly entry_id?: number,
  ) {
    super(reason)
  }
}

export const hash = z.string().check(z.regex(/^[0-9a-f]{64}$/))
const uuid = z.string().check(z.refine(isUuid))
export const integer = z.int().check(z.gte(0))
// Rejects a time that does not exist, such as 30 February: readers of the entries may calculate with it.
const time = z.string().check(z.refine((value) => parseRfc3339(value, 'down') === value))
export const text = z.string().check(z.refine((value) => !value.includes('\0') && isWellFormed(value)))
const headerSchema = z.strictObject({
  format: z.literal(EXPORT_FORMAT),
  tenant_id: uuid,
  after_id: integer,
  after_hash: hash,
  key_changes: z.optional(z.array(text)),
  installation: z.optional(text),
})
export const entrySchema = z.strictObject({
  id: integer,
  action: text,
  key_id: z.nullable(uuid),
  key_version: z.nullable(integer),
  actor: text,
  ip_address: z.nullable(text),
  metadata: z.nullable(text),
  created_at: time,
  hash,
})
const anchorSchema = z.strictObject({
  anchor: entrySchema,
  after_hash: hash,
  last_id: integer,
  hash,
  index: integer,
  proof: z.array(hash),
  signed: text,
})
const linksSchema = z.strictObject({
  tree: text,
  proof: z.array(hash),
  entries: z.array(z.strictObject({ id: integer, hash, proof: z.array(hash) })),
})
const trailerSchema = z.union([
  z.strictObject({ checkpoint: text, public_key: text, tree: z.optional(text) }),
  z.strictObject({ stretch: text, public_key: text, tree: z.optional(text) }),
])

/** Only the keys that the first line states verify an anchor, and the installation's own log (export.md 2). */
export const NO_INSTALLATION = 'the first line does not state the keys of the installation'

/** Reads the first line (export.md 2). @throws ExportFault */
export function readHeader(line: string): ExportHeader {
  const change = findChange(line)
  if (change !== undefined) throw new ExportFault(change)
  const {
    format: _,
    after_hash,
    key_changes = [],
    ...header
  } = parse(line, headerSchema, 'the first line is not the header of an export')
  return assertSame(line, { ...header, after_hash: decodeHex(after_hash), key_changes }, headerLine)
}

/** Describes how the whole file was changed after it was written, according to its first line, and how to undo it. */
function findChange(line: string): string | undefined {
  if (line === COMPRESSED) return 'the file is compressed: decompress it first, for example with gunzip'
  if (line.startsWith('\ufeff'))
    return 'the file begins with a byte order mark, which it was not written with: take it away, for example with dos2unix'
  if (line.endsWith('\r'))
    return 'the lines of the file end with CRLF, which they were not written with: change them back to LF, for example with dos2unix'
  return undefined
}

/** An entry of an export. It has no MAC, and this version may not know its action. */
export type ExportedEntry = AuditEntry & { hash: Uint8Array }

/** Reads the line of an entry (export.md 3); `id` is the expected id. @throws ExportFault */
export function readEntry(line: string, { tenant_id, id }: { tenant_id: string; id: number }): ExportedEntry {
  const { hash, ...fields } = parse(line, entrySchema, 'the line is not an entry', id)
  const entry = { tenant_id, ...fields, hash: decodeHex(hash) } as ExportedEntry
  return assertSame(line, entry, entryLine, id)
}

/** Whether a line has the form of an anchor. */
export function isAnchor(line: string): boolean {
  return line.startsWith('{"anchor"')
}

/** Reads the line of an anchor (export.md 8). @throws ExportFault */
export function readAnchorLine(line: string): ExportAnchor {
  const { anchor, after_hash, hash, proof, ...rest } = parse(line, anchorSchema, 'the line is not an anchor')
  const value = {
    ...rest,
    anchor: { ...anchor, tenant_id: INSTALLATION_ID, hash: decodeHex(anchor.hash) } as ExportedEntry,
    after_hash: decodeHex(after_hash),
    hash: decodeHex(hash),
    proof: proof.map(decodeHex),
  }
  return assertSame(line, value, anchorLine)
}

/** Whether a line has the form of the one that links entries to the anchor. */
export function isLinks(line: string): boolean {
  return line.startsWith('{"tree"')
}

/** Reads the line that links entries of the installation's log to the anchor (export.md 9). @throws ExportFault */
export function readLinksLine(line: string): ExportLinks {
  const { tree, proof, entries } = parse(line, linksSchema, 'the line links no entries to the anchor')
  const linked = entries.map(({ id, hash, proof }) => ({ id, hash: decodeHex(hash), proof: proof.map(decodeHex) }))
  if (linked.some(({ id }, at) => id <= (linked[at - 1]?.id ?? 0)))
    throw new ExportFault('the linked entries are not in the order of their ids')
  return assertSame(line, { tree, proof: proof.map(decodeHex), entries: linked }, linksLine)
}

/** Whether a line has the form of the last one. */
export function isTrailer(line: string): boolean {
  return line.startsWith('{"checkpoint"') || line.startsWith('{"stretch"')
}

/** Reads the last line (export.md 4). @throws ExportFault */
export function readTrailer(line: string): ExportTrailer {
  return assertSame(line, parse(line, trailerSchema, 'the last line is not the trailer of an export'), trailerLine)
}

export function parse<T>(line: string, schema: z.ZodMiniType<T>, otherwise: string, entry_id?: number): T {
  const result = schema.safeParse(parseJson(line))
  if (!result.success) throw new ExportFault(otherwise, entry_id)
  return result.data
}

function parseJson(line: string): unknown {
  const value = readJson(line)
  if (value === undefined) throw new ExportFault('the line is not JSON')
  return value
}

// The same value in other bytes is not the line that the server wrote.
function assertSame<T>(line: string, value: T, write: (value: T) => string, entry_id?: number): T {
  if (`${line}\n` !== write(value))
    throw new ExportFault('the line is not written exactly as the format requires', entry_id)
  return value
}
