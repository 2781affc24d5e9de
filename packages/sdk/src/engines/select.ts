/** Selects the implementation of AES-256-GCM. Each must first pass a known-answer test. */
import { BOUND_KEYS_BYTES, decodeBase64, encodeBase64, encodeUtf8 } from '@eaas/protocol'
import { DecryptionError, InvalidInputError } from '../errors.js'
import { isPromise, loadOnce, loadPart, type Soon, use } from '../waiting.js'
import type { Engine, EngineName } from './engine.js'
import { createNobleEngine } from './noble.js'
import { createNodeEngine } from './node.js'
import { createWebEngine } from './web.js'

/** The engine, or why there is none. */
type Checked = { engine: Engine; fault?: never } | { engine?: never; fault: 'missing' | 'failed' }

/** Why `auto` takes noble: what is wrong with each of the faster engines. */
export interface Fallback {
  node: 'missing' | 'failed'
  web: 'missing' | 'failed'
}

let checkedNode: Checked | undefined
const checkWeb = /* @__PURE__ */ loadOnce(async () => {
  const made = createWebEngine()
  return checked(made, await passing(made))
})

/**
 * Returns the engine of that name: node:crypto itself, and any other by promise. Uses the network only to load
 * noble, if a bundler put it into its own file. Tests node:crypto and WebCrypto once per process, at first use.
 *
 * @param onFallback called before noble is returned for `auto`
 * @throws InvalidInputError when `node` or `web` is requested and is missing, or fails its known-answer test
 */
export function selectEngine(name: EngineName, onFallback?: (why: Fallback) => void): Engine | Promise<Engine> {
  if (name === 'noble') return loadNoble()
  if (name === 'web') return use(checkWeb(), ({ engine }) => engine ?? refuse(name))
  if (!checkedNode) {
    const made = createNodeEngine()
    checkedNode = checked(made, passing(made) as Engine | undefined) // node:crypto is synchronous
  }
  const { engine, fault: node } = checkedNode
  if (engine) return engine
  if (name === 'node') return refuse(name)
  return use(checkWeb(), async ({ engine, fault: web }) => {
    if (engine) return engine
    const noble = await loadNoble()
    onFallback?.({ node, web })
    return noble
  })
}

function checked(made: Engine | undefined, engine: Engine | undefined): Checked {
  return engine ? { engine } : { fault: made ? 'failed' : 'missing' }
}

async function loadNoble(): Promise<Engine> {
  return createNobleEngine(await loadPart(() => import('./noble-primitives.js')))
}

function refuse(name: EngineName): never {
  throw new InvalidInputError(
    `engine "${name}" is not available here, or fails its known-answer test`,
    'Omit `engine`: the client then selects one that works.',
  )
}

/**
 * Returns the engine if it seals, opens, derives and authenticates the published vectors (envelope.md 8,
 * envelope-v2.md 8) and refuses an altered one, otherwise undefined; by promise if the engine is asynchronous.
 */
export function passing(engine: Engine | undefined): Engine | undefined | Promise<Engine | undefined> {
  if (!engine) return undefined
  const key = () => Uint8Array.from({ length: 32 }, (_, at) => at)
  const iv = Uint8Array.from({ length: 12 }, (_, at) => 0xa0 + at)
  const plaintext = encodeUtf8('secret bancaire')
  const sealed = decodeBase64('lX0fXyC/It0DC+SybgilkxTbOdtXvhpZyqHIZyPWaA==')
  const altered = sealed.map((byte) => byte ^ 1)
  const trials = [
    attempt(() => engine.seal(key(), iv, plaintext), encodeBase64(sealed)),
    attempt(() => engine.open(key(), iv, sealed), encodeBase64(plaintext)),
    attempt(() => engine.open(key(), iv, altered)),
    // Each block of HKDF depends on the one before it: the end of the last one is enough.
    attempt(() => engine.derive(key(), iv, BOUND_KEYS_BYTES), 'Ru5Pa0itSw=='),
    attempt(() => engine.createMac(key())(plaintext), 'ysTrgSo5/rU='),
  ]
  const verdict = (passed: readonly boolean[]) => (passed.every(Boolean) ? engine : undefined)
  return trials.some(isPromise) ? Promise.all(trials).then(verdict) : verdict(trials as boolean[])
}

/** Tells whether the returned bytes, in base64, end with `end`; without `end`, whether they do not open. */
function attempt(run: () => Soon<Uint8Array>, end?: string): Soon<boolean> {
  const check = (answer: Uint8Array) => end !== undefined && encodeBase64(answer).endsWith(end)
  const fail = (error: unknown) => end === undefined && error instanceof DecryptionError
  try {
    const answer = run()
    return isPromise(answer) ? answer.then(check, fail) : check(answer)
  } catch (error) {
    return fail(error)
  }
}
