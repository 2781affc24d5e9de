/** The application's secrets (application-secret.md): which may open what is stored, and how they are mixed in. */
import { KEY_BYTES, mixedKeyInfo, type SecretFlag } from '@eaas/protocol'
import { createSecret, type Secret } from '../deks/secret.js'
import type { Engine } from '../engines/engine.js'
import { DecryptionError } from '../errors.js'
import { isPromise, type Soon, use } from '../waiting.js'
import type { GivenSecrets } from './secret-options.js'

/** The secrets of a client, or of a call of the offline entry. */
export interface Secrets {
  /** The first one seals, each of them opens. Empty if there is none. */
  list: readonly Secret[]
  /** Whether values that were sealed without a secret open even though there is one. */
  acceptWithout: boolean
}

/** Takes over copies of secrets, which the holder releases. */
export function holdSecrets({ list, acceptWithout }: GivenSecrets): Secrets {
  return { list: list.map(createSecret), acceptWithout }
}

/** The flag of a value that is sealed with this secret. */
export function flagOf(secret: Secret | undefined): SecretFlag {
  return secret ? { needsSecret: true } : {}
}

/**
 * Returns the secrets under which something stored may have been sealed; undefined stands for none. @throws
 * DecryptionError where it needs one and there is none, or the reverse
 */
export function secretsFor(
  { needsSecret }: SecretFlag,
  { list, acceptWithout }: Secrets,
): readonly (Secret | undefined)[] {
  if (needsSecret && list.length > 0) return list
  if (!needsSecret && (list.length === 0 || acceptWithout)) return [undefined]
  const hint = needsSecret
    ? "It was sealed with the application's secret: pass `secret`."
    : 'It was sealed without a secret, which this reader has. If you know who sealed it, pass `acceptWithoutSecret: true`; else restore it from a backup.'
  throw new DecryptionError(undefined, { hint })
}

/** Tries each secret in turn, until one gives a result. */
export function tryEach<T>(
  secrets: readonly (Secret | undefined)[],
  attempt: (secret: Secret | undefined) => Soon<T | undefined>,
): Soon<T | undefined> {
  const [first, ...others] = secrets
  return use(attempt(first), (found) => (found !== undefined || others.length === 0 ? found : tryEach(others, attempt)))
}

/** Mixes a secret into a key (application-secret.md 2), and runs the function with the result, or with the key itself. */
export function withMixed<T>(
  engine: Engine,
  key: Uint8Array,
  { keyId, secret }: { keyId: string; secret: Secret | undefined },
  run: (mixed: Uint8Array) => Soon<T>,
): Soon<T> {
  if (!secret) return run(key)
  const mixing = secret.use((salt) => engine.derive(key, mixedKeyInfo(keyId), KEY_BYTES, salt))
  return use(mixing, (mixed) => {
    let running: Promise<T> | undefined
    try {
      const result = run(mixed)
      if (!isPromise(result)) return result
      running = result.finally(() => mixed.fill(0))
      return running
    } finally {
      if (!running) mixed.fill(0)
    }
  })
}
