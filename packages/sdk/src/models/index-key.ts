/** The text of an index key, and what is derived from the key (local-index.md 1 and 2). */
import {
  decodeTextForm,
  decodeUtf8,
  encodeTextForm,
  encodeUtf8,
  FormatError,
  isWellFormed,
  KEY_BYTES,
  lengthPrefixed,
  type SecretFlag,
  uuidBytes,
  type WrappedKey,
} from '@eaas/protocol'
import { InvalidInputError } from '../errors.js'
import { readFormat } from '../input.js'

const PREFIX = /^eaas\.index\.1(s?)\./
const MAX_MODEL_BYTES = 256

/** What the text of an index key holds. */
export interface IndexKey extends SecretFlag {
  wrapped: WrappedKey
  commitment: Uint8Array
  /** The name of the only model that may use it; '' if every model may. */
  model: string
}

/**
 * How a column indexes a field: its whole text, its first characters, or each few characters in a row,
 * or the bucket of a date or number (local-index.md 3).
 */
export type IndexKind = 'exact' | 'prefix' | 'ngram' | 'range'

/** Returns the text to store. @throws InvalidInputError when it has none */
export function writeIndexKey({ wrapped, commitment, model, needsSecret }: IndexKey): string {
  const prefix = needsSecret ? 'eaas.index.1s.' : 'eaas.index.1.'
  return reading(() => prefix + encodeTextForm(wrapped, commitment, encodeUtf8(model)))
}

/** Reads the text of an index key. @throws InvalidInputError when it is none (local-index.md 4) */
export function readIndexKey(text: unknown): IndexKey {
  return reading(() => {
    const [prefix, flag] = (typeof text === 'string' && PREFIX.exec(text)) || []
    if (prefix === undefined) throw new FormatError('its text must begin with eaas.index.1.')
    const { wrapped, rest } = decodeTextForm((text as string).slice(prefix.length))
    uuidBytes(wrapped.key_id)
    if (rest.length < KEY_BYTES || rest.length > KEY_BYTES + MAX_MODEL_BYTES)
      throw new FormatError('its length is wrong')
    const model = decodeUtf8(rest.subarray(KEY_BYTES))
    return { wrapped, commitment: rest.slice(0, KEY_BYTES), model, ...(flag && { needsSecret: true }) }
  })
}

/** Refuses what cannot be the name of a model in the text of an index key. @throws InvalidInputError */
export function assertModelName(model: unknown): asserts model is string {
  if (isWellFormed(model) && encodeUtf8(model).length <= MAX_MODEL_BYTES) return
  throw new InvalidInputError(`model must be text of at most ${MAX_MODEL_BYTES} bytes`)
}

/** Makes the `info` of HKDF for the commitment. */
export function commitmentInfo(keyId: string, model: string): Uint8Array {
  return lengthPrefixed([encodeUtf8('eaas/index-key/v1'), uuidBytes(keyId), encodeUtf8(model)])
}

/** Makes the `info` of HKDF for the key of a column. `kind` as local-index.md 2 writes it. */
export function columnInfo(model: string, column: string, kind: string): Uint8Array {
  return lengthPrefixed(['eaas/index-column/v1', model, column, kind].map((part) => encodeUtf8(part)))
}

function reading<T>(read: () => T): T {
  return readFormat(read, 'not an index key: ', 'Pass the whole text that createIndexKey() returned.')
}
