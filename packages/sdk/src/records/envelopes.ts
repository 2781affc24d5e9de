/**
 * Opens one envelope (envelope.md 6, envelope-v2.md 6), with an engine and the DEKs of a client. `seal-envelopes.ts`
 * seals.
 */
import type { DecryptDeks } from '../deks/decrypt-deks.js'
import type { Secret } from '../deks/secret.js'
import type { Engine } from '../engines/engine.js'
import { isEaasError, placedAt, type RecordPlace } from '../errors.js'
import type { DemandOptions } from '../input.js'
import { inEitherUse } from '../uses.js'
import { isPromise, loadOnce, type Soon } from '../waiting.js'
import { demandContext, type OpenableParts, openParts, type Secrets } from './bound-envelopes.js'
import { readEnvelope } from './read-envelope.js'

export interface EnvelopesOptions {
  /** Returns a promise where the engine has to be loaded or tested first. Called again when that failed. */
  selectEngine: () => Engine | Promise<Engine>
  decryptDeks: DecryptDeks
  /** The application's. */
  secrets: Secrets
}

/** Each function is synchronous if the engine is and the DEK is already held; otherwise it returns a promise. */
export interface OpenEnvelopes {
  /** The application's, for streams and index secrets. */
  readonly secrets: Secrets
  /** Loads the engine. Must be awaited before any other call, unless it returns undefined. */
  ready(): Promise<unknown> | undefined
  /** Returns the engine, once it is ready. */
  engine(): Engine
  /**
   * Tells whether the engine is synchronous, so that a promise means that a DEK is being wrapped or
   * unwrapped.
   */
  isSync(): boolean
  /** Opens what `demandContext` returned. @throws DecryptionError */
  open(parts: OpenableParts, signal: AbortSignal | undefined, place?: RecordPlace): Soon<Uint8Array>
  /** Opens with a DEK of the caller. @throws DecryptionError */
  openWith(dek: Secret, parts: OpenableParts, place?: RecordPlace): Soon<Uint8Array>
}

/**
 * Makes the functions that open single values. @throws InvalidInputError when the engine is known to be
 * unavailable
 */
export function createEnvelopes(options: EnvelopesOptions): OpenEnvelopes {
  const { selectEngine, decryptDeks, secrets } = options
  const load = loadOnce(async () => selectEngine())
  let engine: Engine | undefined
  const selected = selectEngine()
  if (!isPromise(selected)) engine = selected
  else selected.catch(() => undefined) // started early; ready() tries again and reports the error

  const current = () => engine as Engine // callers wait for ready() first
  const openWith = (dek: Secret, parts: OpenableParts, place?: RecordPlace) => {
    const translate = (error: unknown): never => {
      throw place && isEaasError(error) ? placedAt(error, place) : error
    }
    try {
      const opened = openParts(current(), dek, parts, secrets)
      return isPromise(opened) ? opened.catch(translate) : opened
    } catch (error) {
      return translate(error)
    }
  }
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
    openWith,
    open(parts, signal, place) {
      const openOne = (one: OpenableParts) => decryptDeks.use(one, signal, (dek) => openWith(dek, one, place))
      return parts.orUse ? inEitherUse(parts, openOne) : openOne(parts) // an error shows few frames of its caller
    },
  }
}

/** Opens an envelope of unknown origin, as `decrypt` of a client does. @throws InvalidInputError, DecryptionError */
export function openOne(
  { envelopes }: { envelopes: OpenEnvelopes },
  envelope: unknown,
  demand: DemandOptions,
  signal: AbortSignal | undefined,
): Soon<Uint8Array> {
  return envelopes.open(demandContext(readEnvelope(envelope), demand), signal)
}
