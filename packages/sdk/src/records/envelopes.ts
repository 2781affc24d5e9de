/** The engine with which a client seals and opens, loaded once, and the application's secrets. */
import type { Engine } from '../engines/engine.js'
import { isPromise, loadOnce, type Soon } from '../waiting.js'
import type { Secrets } from './bound-envelopes.js'

export interface EnvelopeEngine {
  readonly secrets: Secrets
  /** Loads the engine. Must be awaited before any other call, unless it returns undefined. */
  ready(): Promise<unknown> | undefined
  engine(): Engine
  /** Tells whether the engine is synchronous, so that a promise means that a DEK is being wrapped or unwrapped. */
  isSync(): boolean
}

/** @param selectEngine called again when its promise was rejected */
export function createEnvelopes(selectEngine: () => Soon<Engine>, secrets: Secrets): EnvelopeEngine {
  const load = loadOnce(async () => selectEngine())
  let engine: Engine | undefined
  const selected = selectEngine()
  if (!isPromise(selected)) engine = selected
  else selected.catch(() => undefined) // started early; ready() tries again and reports the error

  const current = () => engine as Engine // callers wait for ready() first
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
