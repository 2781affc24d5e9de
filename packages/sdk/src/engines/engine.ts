/** Engines: AES-256-GCM seals and opens; HKDF and HMAC with SHA-256 derive keys and make indexes. Selects and tests one. */
import type * as NodeCrypto from 'node:crypto'
import { assertLengths, assertNotZero, BOUND_KEYS_BYTES, decodeBase64, encodeBase64, encodeUtf8 } from '@eaas/protocol'
import { DecryptionError, InvalidInputError } from '../errors.js'
import { isPromise, loadOnce, loadPart, nodeGlobals, type Soon, use } from '../waiting.js'
import { createWebEngine } from './web.js'

/** `auto` selects node:crypto on Node, WebCrypto in browsers and workers, noble elsewhere. */
export type EngineName = 'auto' | 'noble' | 'node' | 'web'

/** AES-256-GCM under a DEK. Refuses a key of zeros (FormatError). A synchronous engine returns no promises. */
export interface Engine {
  readonly isAsync?: true
  /**
   * Returns ciphertext ‖ tag. The caller may zero the DEK after the call, but must not change its array otherwise: an
   * engine recognises a DEK by its array. The iv must never repeat under one DEK.
   */
  seal(dek: Uint8Array, iv: Uint8Array, plaintext: Uint8Array, aad?: Uint8Array): Soon<Uint8Array>
  /** Derives with HKDF-SHA-256, with a salt (stream.md 2) or none (envelope-v2.md 2). The caller zeroes the result. */
  derive(key: Uint8Array, info: Uint8Array, length: number, salt?: Uint8Array): Soon<Uint8Array>
  /** Makes a function that returns HMAC-SHA-256 under a key. The caller may then zero the key. */
  createMac(key: Uint8Array): Mac
  /** Opens ciphertext ‖ tag. @throws DecryptionError, perhaps from another copy of the SDK, see `isEaasError` */
  open(dek: Uint8Array, iv: Uint8Array, sealed: Uint8Array, aad?: Uint8Array): Soon<Uint8Array>
}

/** Returns 32 bytes. */
export type Mac = (message: Uint8Array) => Soon<Uint8Array>

export interface SyncEngine {
  readonly isAsync?: never
  seal(dek: Uint8Array, iv: Uint8Array, plaintext: Uint8Array, aad?: Uint8Array): Uint8Array
  open(dek: Uint8Array, iv: Uint8Array, sealed: Uint8Array, aad?: Uint8Array): Uint8Array
  derive(key: Uint8Array, info: Uint8Array, length: number, salt?: Uint8Array): Uint8Array
  createMac(key: Uint8Array): (message: Uint8Array) => Uint8Array
}

/** What a separately loaded engine needs from this file. If it imported them, bundlers would make more chunks. */
export interface EngineTools {
  assertLengths: typeof assertLengths
  assertNotZero: typeof assertNotZero
  DecryptionError: typeof DecryptionError
}

type Checked = { engine: Engine; fault?: never } | { engine?: never; fault: 'missing' | 'failed' }

/** Why `auto` selected noble: what is wrong with each faster engine. */
export type Fallback = { node: 'missing' | 'failed'; web: 'missing' | 'failed' }

export const ENGINE_TOOLS: EngineTools = { assertLengths, assertNotZero, DecryptionError }

const checkNode = /* @__PURE__ */ loadOnce(async () => {
  const crypto = nodeCrypto()
  return check(crypto && (await loadPart(() => import('./node.js'))).createNodeEngine(crypto, ENGINE_TOOLS))
})
const checkWeb = /* @__PURE__ */ loadOnce(async () => check(createWebEngine()))

/** Gets node:crypto through `process.getBuiltinModule`, so that a browser bundle imports no Node module. */
export function nodeCrypto(): typeof NodeCrypto | undefined {
  return nodeGlobals().process?.getBuiltinModule?.('node:crypto') as typeof NodeCrypto | undefined
}

/** Returns a promise the first time. `onFallback` is called before `auto` returns noble. @throws InvalidInputError */
export function selectEngine(name: EngineName, onFallback?: (why: Fallback) => void): Soon<Engine> {
  if (name === 'noble') return loadNoble()
  if (name === 'web') return use(checkWeb(), ({ engine }) => engine ?? refuse(name))
  const checkedNode = checkNode()
  if (name === 'node' && isPromise(checkedNode) && !nodeCrypto()) return refuse(name) // before anything is sent
  return use(checkedNode, ({ engine, fault: node }) => {
    if (engine) return engine
    if (name === 'node') return refuse(name)
    return use(checkWeb(), async ({ engine, fault: web }) => {
      if (engine) return engine
      const noble = await loadNoble()
      onFallback?.({ node, web })
      return noble
    })
  })
}

async function loadNoble(): Promise<Engine> {
  return (await loadPart(() => import('./noble.js'))).createNobleEngine(ENGINE_TOOLS)
}

function refuse(name: EngineName): never {
  const hint = 'Omit `engine`: the client then selects one that works.'
  throw new InvalidInputError(`engine "${name}" is not available here, or fails its known-answer test`, hint)
}

/** Returns the engine if it passes the published vectors and refuses an altered one, otherwise what is wrong. */
export async function check(engine: Engine | undefined): Promise<Checked> {
  if (!engine) return { fault: 'missing' }
  const key = () => Uint8Array.from({ length: 32 }, (_, at) => at)
  const iv = Uint8Array.from({ length: 12 }, (_, at) => 0xa0 + at)
  const plaintext = encodeUtf8('secret bancaire')
  const sealed = decodeBase64('lX0fXyC/It0DC+SybgilkxTbOdtXvhpZyqHIZyPWaA==')
  const altered = sealed.map((byte) => byte ^ 1)
  const trials = await Promise.all([
    attempt(() => engine.seal(key(), iv, plaintext), encodeBase64(sealed)),
    attempt(() => engine.open(key(), iv, sealed), encodeBase64(plaintext)),
    attempt(() => engine.open(key(), iv, altered)),
    // Each block of HKDF depends on the one before it, so checking the end of the last one is enough.
    attempt(() => engine.derive(key(), iv, BOUND_KEYS_BYTES), 'Ru5Pa0itSw=='),
    attempt(() => engine.createMac(key())(plaintext), 'ysTrgSo5/rU='),
  ])
  return trials.every(Boolean) ? { engine } : { fault: 'failed' }
}

/** Tells whether the returned bytes, in base64, end with `end`; without `end`, whether opening fails. */
async function attempt(run: () => Soon<Uint8Array>, end?: string): Promise<boolean> {
  try {
    const answer = await run()
    return end !== undefined && encodeBase64(answer).endsWith(end)
  } catch (error) {
    return end === undefined && error instanceof DecryptionError
  }
}
