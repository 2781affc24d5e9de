/** What makes indexes: this process (local-index.md 1), the service, or both (oblivious-index.md 1). And keys by name. */
import { encodeUtf8, isBase64, isWellFormed, MAX_NAME_CHARACTERS } from '@eaas/protocol'
import { InvalidInputError } from '../errors.js'
import { assertKeyId, assertOneOf, assertWhole, kindOf } from '../input.js'
import { loadOnce, type Soon, untilAborted } from '../waiting.js'

export interface IndexBy {
  /**
   * By default, `'local'`, this process makes them, with a secret that the service derives from the key and the model's
   * name. `'oblivious'` makes them together with the service, which sees no value: each search is a request of some
   * milliseconds, and so is each guess, which counts against a budget. Needs `hash`. `'service'` has the service make
   * them: it then sees each value that is indexed or searched for. For joins and clients in other languages.
   */
  by?: 'service' | 'oblivious' | 'local' | undefined
  /**
   * With `by: 'oblivious'`: the key's `blind_hash_public_key`, as `keys.get` returns it, so that the service cannot use
   * another secret for some values. By default the client asks the service once (`keys:read`), and accepts no other.
   */
  publicKey?: string | undefined
  /** Which secret makes them, 1 by default. Another number gives other indexes, see `formerIndex`. */
  generation?: number | undefined
  /** The name of the key that makes them; the model's key by default. Needed if each row has its own key. */
  key?: string | undefined
  keyId?: string | undefined
}

export interface IndexSource {
  /** Undefined if the service makes the index. */
  secret: string | undefined
  /** Whether the service takes part without seeing the values. `secret` then only distinguishes generations. */
  oblivious: boolean
  publicKey: string | undefined
  /** Whether it is the former of two, see `formerIndex`. */
  isFormer: boolean
  /** The id or name of the key, if that is not the model's. */
  keyId: string | undefined
  named: NamedKey | undefined
}

/** OpenSSL's HKDF, which Node uses, takes names of up to about 1,000 bytes. */
const MAX_MODEL_BYTES = 512

export function readIndexSource(
  option: string,
  { by, generation = 1, key, keyId, publicKey }: IndexBy,
  { model, isFormer = false, isService = by === 'service' }: { model: string; isFormer?: boolean; isService?: boolean },
): IndexSource {
  if (by !== undefined) assertOneOf(`${option}.by`, by, ['service', 'oblivious', 'local'])
  const oblivious = by === 'oblivious'
  assertWhole(`${option}.generation`, generation, 1)
  if (by === 'service' && generation !== 1) {
    const hint = "Leave out generation, or by: 'service': 'local' is another."
    throw new InvalidInputError(`${option}: the service has no generations`, hint)
  }
  if (publicKey !== undefined && !(typeof publicKey === 'string' && isBase64(publicKey, 32)))
    throw new InvalidInputError(`${option}.publicKey must be the blind_hash_public_key of the key`)
  if (keyId !== undefined) assertKeyId(keyId, `${option}.keyId`)
  const named = key === undefined ? undefined : createNamedKey(readKeyName({ key, keyId }), new Set())
  const secret = isService ? undefined : secretName(model, generation)
  return { secret, oblivious, publicKey, isFormer, keyId, named }
}

export function optionsOf(by: IndexBy['by']): string[] {
  const options: (keyof IndexBy)[] = ['by', 'generation', 'key', 'keyId']
  return by === 'oblivious' ? [...options, 'publicKey'] : options
}

/** Returns the name of a model's secret (local-index.md 1). @throws InvalidInputError if it would be too long */
function secretName(model: string, generation: number): string {
  const name = generation === 1 ? model : `${model}:${generation}`
  const isText = isWellFormed(name) && !name.includes('\0')
  if (isText && [...name].length <= MAX_NAME_CHARACTERS && encodeUtf8(name).length <= MAX_MODEL_BYTES) return name
  throw new InvalidInputError(
    `a model with an index must have a name of at most ${MAX_NAME_CHARACTERS} characters and ${MAX_MODEL_BYTES} bytes, without NUL or lone surrogates`,
  )
}

type Find = (name: string) => Promise<string | undefined>

/** A key that a model declares by name. It is looked up at the first use. */
export interface NamedKey {
  readonly name: string
  id: string | undefined
  /** Looks the key up once for all waiting callers, and again at the next call if there is none. @throws as `find`; AbortedError */
  find(find: Find, signal: AbortSignal | undefined): Promise<undefined>
}

export function createNamedKey(name: string, keyIds: Set<string>): NamedKey {
  const finding = new Map<Find, () => Soon<object>>()
  const take = async (find: Find) => {
    const id = await find(name)
    if (id) keyIds.add(id)
    else finding.delete(find) // the next call looks again
    key.id ??= id
    return key
  }
  const key: NamedKey = {
    name,
    id: undefined,
    async find(find, signal) {
      if (key.id) return
      const once = finding.get(find) ?? loadOnce(() => take(find))
      finding.set(find, once)
      await untilAborted(once(), signal)
    },
  }
  return key
}

export function readKeyName({ key, keyId }: { key?: unknown; keyId?: unknown }): string {
  if (keyId !== undefined) throw new InvalidInputError('a model takes key or keyId, not both')
  if (typeof key === 'string' && key.trim() !== '' && key.length <= 255) return key
  throw new InvalidInputError(`key must be the name of a key, 1 to 255 characters, got ${kindOf(key)}`)
}
