/** A key that a model declares by its name. Looked up at the first use. */
import { InvalidInputError } from '../errors.js'
import { kindOf } from '../input.js'
import { loadOnce, type Soon, untilAborted } from '../waiting.js'

type Find = (name: string) => Promise<string | undefined>

export interface NamedKey {
  readonly name: string
  /** undefined until the key is found */
  id: string | undefined
  /** Once for all waiting callers; the next call looks again if there is none. @throws as `find`; AbortedError */
  find(find: Find, signal: AbortSignal | undefined): Promise<undefined>
}

/** @param keyIds the ids of the model's keys; the id that is found is added */
export function createNamedKey(name: string, keyIds: Set<string>): NamedKey {
  const finding = new Map<Find, () => Soon<object>>()
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
  const take = async (find: Find) => {
    const id = await find(name)
    if (id) keyIds.add(id)
    else finding.delete(find) // the next call looks again
    key.id ??= id
    return key
  }
  return key
}

export function readKeyName({ key, keyId }: { key?: unknown; keyId?: unknown }): string {
  if (keyId !== undefined) throw new InvalidInputError('a model takes key or keyId, not both')
  if (typeof key === 'string' && key.trim() !== '' && key.length <= 255) return key
  throw new InvalidInputError(`key must be the name of a key, 1 to 255 characters, got ${kindOf(key)}`)
}
