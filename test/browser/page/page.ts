// What the test's page loads: the SDK from its sources, for the tests to call, in the page itself or in a worker.
import * as protocol from '../../../packages/protocol/src/index.js'
import { selectEngine } from '../../../packages/sdk/src/engines/engine.js'
import * as sdk from '../../../packages/sdk/src/index.js'

const violations: string[] = []
globalThis.addEventListener('securitypolicyviolation', (event) => {
  violations.push((event as SecurityPolicyViolationEvent).effectiveDirective)
})

const api = {
  sdk,
  violations,
  runVectors,
  openRefused,
  roundTrip,
  watchImports,
  sealRows,
  openRows: (_msForEach: number): Promise<number> => Promise.reject(new Error('call sealRows first')),
  startWorker,
}

declare global {
  var harness: typeof api
}
globalThis.harness = api

export interface SealVector {
  key: string
  iv: string
  text?: string
  plaintext?: string
  repeat?: { byte: string; times: number }
}

/** Seals and opens each vector with each engine; what was sealed is told by its SHA-256, since one is long. */
async function runVectors(vectors: readonly SealVector[]) {
  const outcomes = []
  for (const name of ['web', 'noble', 'auto'] as const) {
    const engine = await selectEngine(name)
    for (const vector of vectors) {
      const [key, iv] = [() => protocol.decodeHex(vector.key), protocol.decodeHex(vector.iv)]
      const plaintext = plaintextOf(vector)
      const sealed = await engine.seal(key(), iv, plaintext)
      const isSame = (await sha256(await engine.open(key(), iv, sealed))) === (await sha256(plaintext))
      outcomes.push({ name, sealed: await sha256(sealed), isSame })
    }
  }
  return { outcomes, isWeb: (await selectEngine('auto')) === (await selectEngine('web')) }
}

function plaintextOf({ text, plaintext, repeat }: SealVector): Uint8Array {
  if (text !== undefined) return protocol.encodeUtf8(text)
  if (plaintext !== undefined) return protocol.decodeHex(plaintext)
  return new Uint8Array(repeat?.times ?? 0).fill(Number.parseInt(repeat?.byte ?? '', 16))
}

async function sha256(bytes: Uint8Array): Promise<string> {
  return protocol.encodeHex(new Uint8Array(await crypto.subtle.digest('SHA-256', bytes as BufferSource)))
}

/** Decrypts an envelope whose DEK is this one, whatever it says, and gives the code of the error, or `opened`. */
async function openRefused(envelope: unknown, dekHex: string): Promise<string> {
  const dek = protocol.encodeBase64(protocol.decodeHex(dekHex))
  const eaas = sdk.createClient({
    baseUrl: '/none',
    fetch: async () => Response.json({ dek, key_id: (envelope as sdk.Envelope).key_id, key_version: 1 }),
  })
  return eaas.decrypt(envelope as sdk.Envelope).then(
    () => 'opened',
    (error: { code: string }) => error.code,
  )
}

/** Notes each key that WebCrypto gets from here on, and whether its bytes were wiped before anything else could run. */
function watchImports(): { imports: { isExtractable: boolean; isWiped: boolean }[] } {
  const imports: { isExtractable: boolean; isWiped: boolean }[] = []
  const { subtle } = crypto
  const importKey = subtle.importKey.bind(subtle)
  Object.assign(subtle, {
    importKey(...args: Parameters<typeof importKey>) {
      const [format, bytes, , isExtractable] = args
      const key = importKey(...args)
      if (format === 'raw') {
        queueMicrotask(() =>
          imports.push({ isExtractable, isWiped: (bytes as Uint8Array).every((byte) => byte === 0) }),
        )
      }
      return key
    },
  })
  return { imports }
}

/** Everything that a page does with the SDK: encrypt, search, decrypt, by another client that has no DEK. */
async function roundTrip(keyId: string): Promise<string> {
  const [writer, reader] = [sdk.createClient({ baseUrl: '/api/eaas' }), sdk.createClient({ baseUrl: '/api/eaas' })]
  const fields = { email: sdk.text({ index: 'email_index', normalize: ['trim', 'lowercase'] }), note: sdk.text() }
  const model = writer.model({ name: 'users', keyId, bind: false, fields })
  const row = await model.encrypt({ email: 'Ada@example.org', note: 'called twice' })
  const { email_index } = await model.index({ email: ' ada@example.org' })
  const { note } = await reader.model({ name: 'users', keyId, bind: false, fields }).decrypt(row)
  writer.close()
  reader.close()
  return row.email_index === email_index ? note : 'not found'
}

/** Seals so many rows, and makes `openRows`, which opens them and counts their texts. */
async function sealRows(keyId: string, count: number, engine: 'auto' | 'noble'): Promise<void> {
  const fields = { name: sdk.text(), email: sdk.text(), note: sdk.text() }
  const eaas = sdk.createClient({ baseUrl: '/api/eaas', engine })
  const rows = await eaas.model({ name: 'users', keyId, bind: false, fields }).encryptMany(
    Array.from({ length: count }, (_, id) => ({
      id,
      name: `name ${id}`,
      email: `${id}@example.org`,
      note: 'x'.repeat(200),
    })),
  )
  eaas.close()
  globalThis.harness.openRows = async (msForEach) => {
    const reader = sdk.createClient({ baseUrl: '/api/eaas', engine })
    const counting = countTexts(msForEach)
    const { ok } = await reader.model({ name: 'users', keyId, bind: false, fields }).decryptMany(rows)
    counting.restore()
    reader.close()
    return ok.filter(({ id, name }) => name === `name ${id}`).length
  }
}

/** Sets the mark `text` for each text that is decoded from here on, and has the page's clock tell so many milliseconds for each, and no others. */
function countTexts(msForEach: number): { restore(): void } {
  const { decode } = TextDecoder.prototype
  let texts = 0
  TextDecoder.prototype.decode = function (...args) {
    texts += 1
    performance.mark('text')
    return decode.apply(this, args)
  }
  performance.now = () => texts * msForEach
  return {
    restore() {
      TextDecoder.prototype.decode = decode
      Reflect.deleteProperty(performance, 'now') // the prototype has it
    },
  }
}

export interface WorkerOutcome {
  note: string
  vectors: Awaited<ReturnType<typeof runVectors>>
  violations: string[]
}

/** Does the round trip and the vectors in a worker under the same policy. */
function startWorker(keyId: string, vectors: readonly SealVector[]): Promise<WorkerOutcome> {
  const worker = new Worker('/worker.js', { type: 'module' })
  return new Promise((resolve, reject) => {
    worker.addEventListener('message', ({ data }) => (data.error ? reject(new Error(data.error)) : resolve(data)))
    worker.addEventListener('error', ({ message }) => reject(new Error(message)))
    worker.postMessage({ keyId, vectors })
  })
}
