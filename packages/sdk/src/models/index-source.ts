/** What makes the indexes of a model: this process, by a secret of a key, or the service (local-index.md 1). */
import { encodeUtf8, isWellFormed, lengthPrefixed, MAX_NAME_CHARACTERS } from '@eaas/protocol'
import { InvalidInputError } from '../errors.js'
import { assertKeyId, assertOneOf, assertWhole } from '../input.js'
import { createNamedKey, type NamedKey, readKeyName } from './named-key.js'

/** What makes the indexes of a model. */
export interface IndexBy {
  /**
   * `'service'` has the service make them: it sees each value that is indexed or searched for, and each search is a
   * request. For joins, for clients in other languages, and where each guess is to take a budget. By default they are
   * made in this process, with a secret that the service derives from the key and the model's name.
   */
  by?: 'service' | undefined
  /** Which secret makes them, 1 by default: another number gives other indexes. See `formerIndex`. */
  generation?: number | undefined
  /** The name of the key that makes them; the model's key by default. Needed where each row has a key of its own. */
  key?: string | undefined
  /** The id of that key. Not with `key`. */
  keyId?: string | undefined
}

/** A checked `IndexBy`. */
export interface IndexSource {
  /** The name of the secret; undefined where the service makes the index. */
  secret: string | undefined
  /** Whether it is the former one of two: see `formerIndex`. */
  isFormer: boolean
  /** The key, if it is not the model's: declared by its id, or by its name. */
  keyId: string | undefined
  named: NamedKey | undefined
}

/** HKDF of OpenSSL, which Node has, takes names of up to about 1,000 bytes. */
const MAX_MODEL_BYTES = 512

/** @throws InvalidInputError naming what is wrong */
export function readIndexSource(
  option: string,
  { by, generation = 1, key, keyId }: IndexBy,
  { model, isFormer = false, isService = by !== undefined }: { model: string; isFormer?: boolean; isService?: boolean },
): IndexSource {
  if (by !== undefined) assertOneOf(`${option}.by`, by, ['service'])
  assertWhole(`${option}.generation`, generation, 1)
  if (by && generation !== 1)
    throw new InvalidInputError(`${option}: the service has no generations`, "Leave out generation, or by: 'service'.")
  if (keyId !== undefined) assertKeyId(keyId, `${option}.keyId`)
  const named = key === undefined ? undefined : createNamedKey(readKeyName({ key, keyId }), new Set())
  return { secret: isService ? undefined : secretName(model, generation), isFormer, keyId, named }
}

/** The options of `IndexBy`. */
export const INDEX_BY = ['by', 'generation', 'key', 'keyId'] satisfies (keyof IndexBy)[]

/** The name of the secret of a model (local-index.md 1). @throws InvalidInputError where it would be too long */
function secretName(model: string, generation: number): string {
  const name = generation === 1 ? model : `${model}:${generation}`
  const isText = isWellFormed(name) && !name.includes('\0')
  if (isText && [...name].length <= MAX_NAME_CHARACTERS && encodeUtf8(name).length <= MAX_MODEL_BYTES) return name
  throw new InvalidInputError(
    `a model with an index must have a name of at most ${MAX_NAME_CHARACTERS} characters and ${MAX_MODEL_BYTES} bytes, without a NUL or a lone surrogate`,
  )
}

/** Makes the `info` of HKDF for the key of a column. `kind` as local-index.md 2 writes it. */
export function columnInfo(model: string, column: string, kind: string): Uint8Array {
  return lengthPrefixed(['eaas/index-column/v1', model, column, kind].map((part) => encodeUtf8(part)))
}
