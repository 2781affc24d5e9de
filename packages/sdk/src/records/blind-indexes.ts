/** The columns of blind indexes: hashing their values, and which values a row may hold there already. */
import { decodeUtf8, encodeUtf8 } from '@eaas/protocol'
import { InvalidInputError, type RecordPlace } from '../errors.js'
import type { Batcher } from '../http/batcher.js'
import { assertHashable, HASH_BITS, isMissing, type Row, valueIn } from '../input.js'

/** How many values are hashed at a time: a few full requests. */
const BLOCK_HASHES = 4_000

/** How the texts that models make of names and values begin (index-texts.md 2). */
const MADE_TEXT = /^eaas\/(?:index|compound)\//
const COLON = 0x3a

/**
 * Refuses a value that cannot be hashed as it is, or whose hash would equal that of other values in an index of a
 * model. @throws InvalidInputError
 */
export function assertHashedAsItIs(value: unknown, place?: RecordPlace): void {
  assertHashable(value, place)
  if (!MADE_TEXT.test(value)) return
  throw new InvalidInputError('text for a shared index must not begin as the text of another index', undefined, place)
}

/** Returns the blind index of each value. */
export async function hashEach(
  batcher: Batcher,
  values: ReadonlySet<string>,
  { keyId, signal }: { keyId: string; signal?: AbortSignal | undefined },
): Promise<Map<string, string>> {
  const hashes = new Map<string, string>()
  const list = [...values]
  for (let start = 0; start < list.length; start += BLOCK_HASHES) {
    const ask = async (value: string) => hashes.set(value, await batcher.hash(value, keyId, signal, valuesIn(value)))
    await Promise.all(list.slice(start, start + BLOCK_HASHES).map(ask))
  }
  return hashes
}

/** The values from which a model made a text (index-texts.md 2). */
function valuesIn(text: string): string[] {
  if (!MADE_TEXT.test(text)) return []
  const values: string[] = []
  const bytes = encodeUtf8(text)
  for (let at = text.indexOf(':'); at < bytes.length; ) {
    const start = bytes.indexOf(COLON, at + 1) + 1
    const end = start + Number(decodeUtf8(bytes.subarray(at + 1, start - 1)))
    values.push(decodeUtf8(bytes.subarray(start, end)))
    at = end
  }
  return text.startsWith('eaas/index/') ? values.slice(2) : values // without the names of the model and the column
}

/** A column of an index, and how many bits of the index it holds; all by default. */
interface HashColumn {
  column: string
  bits?: number | undefined
  /** `ngram` where it holds a list of indexes. */
  kind?: string
}

/** Refuses a record whose index column holds anything else, which would be overwritten. @throws InvalidInputError */
export function assertIndexColumn(record: Row, column: HashColumn, place: RecordPlace): void {
  if (isIndexColumn(record, column)) return
  throw new InvalidInputError(
    `the index would overwrite the column ${JSON.stringify(column.column)}`,
    'Leave it out of the row: the index fills it. Or name another column for the index.',
    place,
  )
}

/** Tells whether a record's column is empty or holds an index, whole or truncated. */
export function isIndexColumn(record: Row, { column, bits = HASH_BITS, kind }: HashColumn): boolean {
  const value = valueIn(record, column)
  if (isMissing(value)) return true
  const digits = [HASH_BITS / 4, Math.ceil(bits / 4)]
  const isIndex = (one: unknown) => typeof one === 'string' && digits.includes(one.length) && /^[0-9a-f]+$/.test(one)
  return kind === 'ngram' ? Array.isArray(value) && value.every(isIndex) : isIndex(value)
}
