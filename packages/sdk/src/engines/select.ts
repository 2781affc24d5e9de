/** Selects the implementation of AES-256-GCM. Each must first pass a known-answer test. */
import { decodeBase64, encodeBase64, encodeUtf8, OpenError } from '@eaas/protocol'
import { isPromise } from '../async/is-promise.js'
import { requestsAreIsolated } from '../async/isolated-requests.js'
import { loadPart } from '../async/load-part.js'
import { InvalidInputError } from '../errors.js'
import type { Engine } from './engine.js'
import type { EngineName } from './names.js'
import { createNobleEngine } from './noble.js'
import { createNodeEngine } from './node.js'
import { createWebEngine } from './web.js'

let checkedNode: { engine: Engine | undefined } | undefined
let checkedWeb: { engine: Engine | undefined } | undefined
let checkingWeb: Promise<Engine | undefined> | undefined

/**
 * Returns the engine of that name: node:crypto itself, and any other by promise. Uses the network only to load noble where a
 * bundler made a file of its own of it. Tests node:crypto and WebCrypto once a process, at first use.
 *
 * @throws InvalidInputError when `node` or `web` is requested and is missing, or fails its known-answer test
 */
export function selectEngine(name: EngineName): Engine | Promise<Engine> {
  if (name === 'noble') return loadNoble()
  if (name === 'web') return findWeb().then((engine) => engine ?? refuse(name))
  checkedNode ??= { engine: passing(createNodeEngine()) as Engine | undefined } // node:crypto is synchronous
  if (checkedNode.engine) return checkedNode.engine
  return name === 'node' ? refuse(name) : findWeb().then((engine) => engine ?? loadNoble())
}

function findWeb(): Promise<Engine | undefined> {
  if (checkedWeb) return Promise.resolve(checkedWeb.engine)
  checkingWeb ??= Promise.resolve(passing(createWebEngine())).then((engine) => {
    checkedWeb = { engine }
    return engine
  })
  const checking = checkingWeb
  if (requestsAreIsolated()) checkingWeb = undefined // each request tests it until one has finished
  return checking
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
 * Returns the engine when it seals, opens and derives the published vectors (envelope.md 8, envelope-v2.md 8) and refuses an altered one, else undefined;
 * by promise where the engine is asynchronous.
 */
export function passing(engine: Engine | undefined): Engine | undefined | Promise<Engine | undefined> {
  if (!engine) return undefined
  const key = () => Uint8Array.from({ length: 32 }, (_, at) => at)
  const iv = Uint8Array.from({ length: 12 }, (_, at) => 0xa0 + at)
  const plaintext = encodeUtf8('secret bancaire')
  const expected = decodeBase64('lX0fXyC/It0DC+SybgilkxTbOdtXvhpZyqHIZyPWaA==')
  const altered = expected.slice()
  altered[altered.length - 1] = (altered.at(-1) ?? 0) ^ 1
  const trials: (() => boolean | Promise<boolean>)[] = [
    () => gives(expected, () => engine.seal(key(), iv, plaintext)),
    () => gives(plaintext, () => engine.open(key(), iv, expected)),
    () => refuses(() => engine.open(key(), iv, altered)),
    () => derives('Ru5Pa0itSw==', () => engine.derive(key(), iv)),
  ]
  const verdicts = trials.map((trial) => trial())
  const verdict = (passed: readonly boolean[]) => (passed.every(Boolean) ? engine : undefined)
  return verdicts.some(isPromise) ? Promise.all(verdicts).then(verdict) : verdict(verdicts as boolean[])
}

type Answer = Uint8Array | Promise<Uint8Array>

function gives(expected: Uint8Array, run: () => Answer): boolean | Promise<boolean> {
  return attempt(
    run,
    (answer) => equal(answer, expected),
    () => false,
  )
}

/** Each block of HKDF depends on the one before it: the end of the last one is enough. */
function derives(end: string, run: () => Answer): boolean | Promise<boolean> {
  return attempt(
    run,
    (answer) => encodeBase64(answer).endsWith(end),
    () => false,
  )
}

function refuses(run: () => Answer): boolean | Promise<boolean> {
  return attempt(
    run,
    () => false,
    (error) => error instanceof OpenError,
  )
}

function attempt(
  run: () => Answer,
  good: (answer: Uint8Array) => boolean,
  bad: (error: unknown) => boolean,
): boolean | Promise<boolean> {
  try {
    const answer = run()
    return isPromise(answer) ? answer.then(good, bad) : good(answer)
  } catch (error) {
    return bad(error)
  }
}

function equal(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((byte, at) => byte === b[at])
}
