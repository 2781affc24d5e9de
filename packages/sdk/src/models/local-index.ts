/** Makes the values of index columns in this process (local-index.md). Loaded at the first call. */
import { encodeHex, encodeUtf8, KEY_BYTES, lengthPrefixed } from '@eaas/protocol'
import type { Secret } from '../deks/secret.js'
import type { Engine, Mac } from '../engines/engine.js'
import type { RecordsDeps } from '../records/blocks.js'
import { type Secrets, withMixed } from '../records/bound-envelopes.js'
import { type Soon, use } from '../waiting.js'
import type { IndexSource } from './index-source.js'
import type { otherIndexSecret } from './rare-indexes.js'

/** For a digest that tells secrets apart and reveals nothing of them. No column's info begins like this. */
const DIGEST_INFO = encodeUtf8('eaas/index-secret-digest/v1')

/** Keeps a digest of each secret while the client lives: indexes made with another secret would find no row. @throws ProtocolError */
export function createIndexSecrets(
  derive: RecordsDeps['batcher']['indexSecret'],
  engine: () => Engine,
  loadErrors: () => Soon<{ otherIndexSecret: typeof otherIndexSecret }>,
): (wanted: { key_id: string; wrapped_key: string }) => Promise<Uint8Array> {
  const digests = new Map<string, string>()
  return async ({ key_id, wrapped_key: name }) => {
    const secret = await derive(name, key_id)
    const digest = encodeHex(await engine().derive(secret, DIGEST_INFO, KEY_BYTES))
    const id = `${key_id} ${name}`
    const first = digests.get(id) ?? digest
    digests.set(id, first)
    if (digest === first) return secret
    secret.fill(0)
    throw (await loadErrors()).otherIndexSecret(key_id, name)
  }
}

const made = new WeakMap<Secret, Map<string, Mac>>()

/** What columns' values are made with: the secret of this name, under this key. */
export interface Made {
  secret: string
  mixed: Secret | undefined
  keyId: string
  model: string
  /** Each column with its kind, as in local-index.md 2. */
  columns: readonly (readonly [column: string, kind: string])[]
}

/** Returns the MAC of each column. Has the secret derived unless it is cached. The engine must be ready. */
export function openColumns(
  { indexSecrets, envelopes }: Pick<RecordsDeps, 'indexSecrets' | 'envelopes'>,
  { secret: name, mixed, keyId, model, columns }: Made,
  signal: AbortSignal | undefined,
): Soon<Mac[]> {
  const engine = envelopes.engine()
  return indexSecrets.use({ key_id: keyId, key_version: 0, wrapped_key: name }, signal, (secret) => {
    const known = made.get(secret) ?? new Map<string, Mac>()
    made.set(secret, known)
    const open = ([column, kind]: readonly [string, string]): Soon<Mac> => {
      const info = lengthPrefixed(['eaas/index-column/v1', model, column, kind].map((part) => encodeUtf8(part)))
      const id = `${envelopes.secrets.list.indexOf(mixed as Secret)} ${encodeHex(info)}`
      const mac = known.get(id)
      if (mac) return mac
      const keep = (key: Uint8Array) => {
        const mac = engine.createMac(key)
        key.fill(0)
        known.set(id, mac)
        return mac
      }
      return secret.use((bytes) =>
        withMixed(engine, bytes, { keyId, secret: mixed }, (mixed) => use(engine.derive(mixed, info, KEY_BYTES), keep)),
      )
    }
    return Promise.all(columns.map(open))
  })
}

/** Returns the application's secret for an index: the first one or, for a former index, the last (application-secret.md 1). */
export function mixedIn(
  { isFormer }: Pick<IndexSource, 'isFormer'>,
  { list, acceptWithout }: Secrets,
): Secret | undefined {
  return isFormer ? (acceptWithout ? undefined : list.at(-1)) : list[0]
}

/** Returns a text's whole MAC in hexadecimal digits, like the service's hash. */
export function hashText(mac: Mac, text: string): Soon<string> {
  return use(mac(encodeUtf8(text)), encodeHex)
}
