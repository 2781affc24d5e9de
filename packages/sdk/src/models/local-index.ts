/**
 * Opens index keys, once per client, and makes the values of index columns in this process (local-index.md). Loaded
 * at the first call.
 */
import { encodeHex, encodeUtf8, equalInConstantTime, KEY_BYTES } from '@eaas/protocol'
import { createSecret, type Secret, withOwnDek } from '../deks/secret.js'
import type { Engine, Mac } from '../engines/engine.js'
import { AbortedError, ApiError, DecryptionError, isEaasError } from '../errors.js'
import { assertKeyId, assertOptions, isObject } from '../input.js'
import type { RecordsDeps } from '../records/blocks.js'
import { flagOf, secretsFor, withMixed } from '../records/bound-envelopes.js'
import type { Commit } from '../records/rewrapping.js'
import { useOfIndex } from '../uses.js'
import { loadOnce, type Soon, untilAborted, use } from '../waiting.js'
import { readKeyName } from './definition.js'
import { assertModelName, columnInfo, commitmentInfo, type IndexKey, readIndexKey, writeIndexKey } from './index-key.js'

/** Makes the MACs of columns, each once. `kind` as local-index.md 2 writes it. */
export type ColumnMacs = (model: string, column: string, kind: string) => Soon<Mac>

/** Opens each index key of a client once, by its text. */
const openers = new WeakMap<AbortSignal, Map<string, () => Soon<ColumnMacs>>>()

type Deps = Pick<RecordsDeps, 'batcher' | 'envelopes' | 'closed' | 'onClose' | 'wrap'>

/** Makes an index key and returns its text; see `Client.createIndexKey`. The engine must be ready. */
export async function createIndexKey(
  { wrap, envelopes, ensureKey }: Deps & Pick<RecordsDeps, 'ensureKey'>,
  key: string | { readonly key: string },
  { model, signal }: { model: string; signal: AbortSignal | undefined },
): Promise<string> {
  assertModelName(model)
  if (isObject(key)) assertOptions('key', key, ['key'])
  const keyId = isObject(key) ? await untilAborted(ensureKey(readKeyName(key)), signal) : key
  assertKeyId(keyId)
  return withOwnDek(wrap, { keyId, signal, use: useOfIndex(model) }, async ({ dek, wrapped }) => {
    const [secret] = envelopes.secrets.list
    const commitment = await commitFor(model)(envelopes.engine(), dek, keyId, secret)
    return writeIndexKey({ wrapped, commitment, model, ...flagOf(secret) })
  })
}

/** Has the index key in a text wrapped again, under the current version of its key, and returns the new text. */
export async function rewrapIndexKey(
  { rewrap }: Pick<RecordsDeps, 'rewrap'>,
  text: string,
  signal: AbortSignal | undefined,
): Promise<string> {
  const read = readIndexKey(text)
  const { wrapped, commitment, model, ...flag } = read
  return writeIndexKey({
    ...read,
    wrapped: await rewrap({ ...wrapped, commitment, ...flag, use: useOfIndex(model) }, signal, {
      commit: commitFor(model),
    }),
  })
}

/**
 * Returns the MACs under an index key. Unwraps it once per client, for all callers who wait; a failed unwrap is not
 * kept. The engine must be ready.
 *
 * @throws DecryptionError when the text was altered, or the service unwraps another key
 */
export async function openIndexKey(deps: Deps, given: IndexKey, signal: AbortSignal | undefined): Promise<ColumnMacs> {
  if (deps.closed.aborted) throw new AbortedError()
  const known = openers.get(deps.closed) ?? new Map<string, () => Soon<ColumnMacs>>()
  openers.set(deps.closed, known)
  const name = writeIndexKey(given)
  const open = known.get(name) ?? loadOnce(() => unwrapIndexKey(deps, given))
  known.set(name, open)
  return untilAborted(open(), signal)
}

/** Returns the MACs under a key, which is released when the client is closed. */
async function unwrapIndexKey({ batcher, envelopes, closed, onClose }: Deps, given: IndexKey): Promise<ColumnMacs> {
  const { wrapped, commitment, model } = given
  const secrets = secretsFor(given, envelopes.secrets)
  // An index key unwraps only as one, so the right to open rows does not allow computing indexes (local-index.md 1).
  const bytes = await batcher.unwrap({ ...wrapped, use: useOfIndex(model) }).catch((error: unknown) => {
    throw explain(error)
  })
  const key = createSecret(bytes)
  const engine = envelopes.engine()
  for (const secret of secrets) {
    const derived = await commitFor(model)(engine, key, wrapped.key_id, secret)
    // Checked before anything is hashed: under another key, searches would find no row, unnoticed.
    if (!equalInConstantTime(derived, commitment)) continue
    if (closed.aborted) key.release()
    else onClose.add(key.release)
    return createMacs(engine, key, { keyId: wrapped.key_id, secret })
  }
  key.release()
  throw refused()
}

/** Returns what derives the commitment to an index key (local-index.md 2). */
function commitFor(model: string): Commit {
  return (engine, key, keyId, secret) =>
    key.use((bytes) =>
      withMixed(engine, bytes, { keyId, secret }, (mixed) =>
        engine.derive(mixed, commitmentInfo(keyId, model), KEY_BYTES),
      ),
    )
}

function createMacs(engine: Engine, key: Secret, mixing: { keyId: string; secret: Secret | undefined }): ColumnMacs {
  const made = new Map<string, Mac>()
  return (model, column, kind) => {
    const info = columnInfo(model, column, kind)
    const name = encodeHex(info)
    const known = made.get(name)
    if (known) return known
    const keep = (columnKey: Uint8Array) => {
      const mac = engine.createMac(columnKey)
      columnKey.fill(0)
      made.set(name, mac)
      return mac
    }
    return key.use((bytes) =>
      withMixed(engine, bytes, mixing, (mixed) => use(engine.derive(mixed, info, KEY_BYTES), keep)),
    )
  }
}

const FAILED = 'could not open the index key'
const REMEDY = 'Restore its text, or make another by createIndexKey() and index the rows again.'

/**
 * Makes an error that names the index key: the given error may be that of a whole batch. Rows open without an index
 * key, so a destroyed one deletes no data.
 */
function explain(error: unknown): unknown {
  if (!isEaasError(error)) return error
  if (error.code === 'E_DECRYPTION') return refused(error)
  if (error.code !== 'E_API') return error
  const { message: _, hint, retryable, ...answer } = error
  return new ApiError(FAILED, answer, error.problem.endsWith('DESTROYED') ? REMEDY : hint, retryable)
}

function refused(cause?: unknown): DecryptionError {
  return new DecryptionError(undefined, {
    message: `${FAILED}: altered, or of another key or tenant`,
    hint: REMEDY,
    cause,
  })
}

/** Returns the whole MAC of a text in hexadecimal digits, in place of the service's hash. */
export function hashText(mac: Mac, text: string): Soon<string> {
  return use(mac(encodeUtf8(text)), encodeHex)
}
