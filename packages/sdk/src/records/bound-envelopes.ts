/** Envelopes of format v2: their context (envelope-v2.md), the secrets in their keys (application-secret.md), and the engine. */
import type { BoundKeys, Context, SecretFlag } from '@eaas/protocol'
import {
  BOUND_KEYS_BYTES,
  boundKeysInfo,
  contextAad,
  FormatError,
  KEY_BYTES,
  mixedKeyInfo,
  NO_CONTEXT,
} from '@eaas/protocol'
import { createSecret, type Secret } from '../deks/secret.js'
import type { Engine } from '../engines/engine.js'
import { InvalidInputError, type RecordPlace } from '../errors.js'
import type { GivenSecrets } from '../input.js'
import { isPromise, loadOnce, type Soon, use } from '../waiting.js'

export function readContext(keyId: string, context: unknown, place?: RecordPlace): Uint8Array {
  return readingContext(() => contextAad(keyId, context), place)
}

export type Format = { context?: Context | undefined; envelope?: 1 | 2 | undefined }

/** Returns the AAD for a new envelope; undefined for format v1, which has none. @throws InvalidInputError */
export function readFormatAad(
  keyId: string,
  { context = NO_CONTEXT, envelope }: Format,
  place?: RecordPlace,
): Uint8Array | undefined {
  return envelope === 1 ? undefined : readContext(keyId, context, place)
}

export function readingContext(read: () => Uint8Array, place?: RecordPlace): Uint8Array {
  try {
    return read()
  } catch (error) {
    const hint = 'Pass a flat object of strings.'
    // Any other error comes from a getter, and may quote the value.
    const message = error instanceof FormatError ? error.message : 'context cannot be read: a getter or a Proxy throws'
    throw new InvalidInputError(message, hint, place)
  }
}

/** Runs a function with the keys that format v2 derives from a DEK and the application's secret. */
export function useKeys<T>(
  engine: Engine,
  dek: Secret,
  { keyId, secret }: { keyId: string; secret: Secret | undefined },
  run: (keys: BoundKeys) => Soon<T>,
): Soon<T> {
  const derive = (bytes: Uint8Array) =>
    withMixed(engine, bytes, { keyId, secret }, (mixed) => engine.derive(mixed, boundKeysInfo(keyId), BOUND_KEYS_BYTES))
  return dek.useBound(derive, run, secret)
}

export interface Secrets {
  /** The first one seals, each of them opens. Empty if there is none. */
  list: readonly Secret[]
  /** Whether values that were sealed without a secret open although there is one. */
  acceptWithout: boolean
}

export function holdSecrets({ list, acceptWithout }: GivenSecrets): Secrets {
  return { list: list.map(createSecret), acceptWithout }
}

export function flagOf(secret: Secret | undefined): SecretFlag {
  return secret ? { needsSecret: true } : {}
}

/** Runs a function with a key into which a secret is mixed (application-secret.md 2), or without a secret with the key itself. */
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

export interface EnvelopeEngine {
  readonly secrets: Secrets
  /** Loads the engine. Await it before any other call, unless it returns undefined. */
  ready(): Promise<unknown> | undefined
  engine(): Engine
  /** Tells whether the engine is synchronous, so that a promise can only mean that a DEK is being wrapped or unwrapped. */
  isSync(): boolean
}

/** @param selectEngine called again if its promise was rejected */
export function createEnvelopes(selectEngine: () => Soon<Engine>, secrets: Secrets): EnvelopeEngine {
  const load = loadOnce(async () => selectEngine())
  let engine: Engine | undefined
  const selected = selectEngine()
  if (!isPromise(selected)) engine = selected
  else selected.catch(() => undefined) // only a head start: ready() tries again and reports the error

  const current = () => engine as Engine // callers first wait for ready()
  return {
    secrets,
    ready() {
      const take = (loaded: Engine) => {
        engine ??= loaded
      }
      return engine ? undefined : Promise.resolve(load()).then(take)
    },
    engine: current,
    isSync: () => !current().isAsync,
  }
}
