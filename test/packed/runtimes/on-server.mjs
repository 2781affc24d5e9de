// What the SDK of a runtime does with a real server and with values that Node made: plain JavaScript, on the package as it is
// published. Node checks what it returns.
import { createClient, isEaasError, text, toText } from '@eaas/sdk'
import { decryptStream, encryptStream, openRange } from '@eaas/sdk/streams'
import { decryptSync, encryptSync, warm } from '@eaas/sdk/sync'

/** More than two segments. */
const STREAM_BYTES = 150_000

/** The plaintext of all streams. */
export function streamPlaintext() {
  return Uint8Array.from({ length: STREAM_BYTES }, (_, at) => (at * 7) % 251)
}

/** The model of all rows, with its index made in the process. */
export function membersOf(eaas, { keyId }) {
  const fields = { email: text({ index: 'email_index', normalize: ['lowercase'] }), name: text() }
  return eaas.model({ name: 'members', keyId, bind: ['id'], fields })
}

/** Seals everything that the SDK seals. Bytes are base64, so that the outcome is JSON. */
export async function makeValues(eaas, { keyId, context }) {
  const stream = await collect(source(streamPlaintext()).pipeThrough(encryptStream(eaas, { keyId, context })))
  return {
    v1: await eaas.encrypt('zażółć 1', { keyId, envelope: 1 }),
    v2: await eaas.encrypt('zażółć 2', { keyId, context }),
    text: toText(await eaas.encrypt('zażółć 3', { keyId, context })),
    stream: toBase64(stream),
    row: await membersOf(eaas, { keyId }).encrypt({ id: '7', email: 'Ada@Example.org', name: 'Ada' }),
  }
}

/** Opens everything that `makeValues` returned, and what must not open. @throws where the outcome is another one */
export async function openValues(eaas, { keyId, context }, made) {
  equal(await eaas.decryptText(made.v1), 'zażółć 1')
  equal(await eaas.decryptText(made.v2, { context }), 'zażółć 2')
  equal(await eaas.decryptText(made.text, { context }), 'zażółć 3')
  equal(await codeOf(eaas.decrypt(made.v2, { context: { ...context, row: 'other' } })), 'E_DECRYPTION')
  const members = membersOf(eaas, { keyId })
  equal(await members.decrypt(made.row), { id: '7', email: 'Ada@Example.org', name: 'Ada' })
  equal(await members.index({ email: 'ADA@example.org' }), { email_index: made.row.email_index })
  equal(await codeOf(members.decrypt({ ...made.row, id: '8' })), 'E_DECRYPTION')
  const sealed = fromBase64(made.stream)
  const open = (bytes, options = { context }) => collect(source(bytes).pipeThrough(decryptStream(eaas, options)))
  equalBytes(await open(sealed), streamPlaintext())
  const part = openRange(eaas, new Blob([sealed]), { from: 65_000, to: 66_000, context })
  equalBytes(await collect(part), streamPlaintext().subarray(65_000, 66_000))
  equal(await codeOf(open(sealed.subarray(0, -1))), 'E_DECRYPTION')
  equal(await codeOf(open(sealed, {})), 'E_DECRYPTION')
}

/** Opens, with each of the engines, what Node made. Returns what each makes. @throws where one behaves otherwise than in Node */
export async function runOnServer({ baseUrl, apiKey, engines, made, ...scene }) {
  const outcome = {}
  for (const engine of engines) {
    const eaas = createClient({ baseUrl, apiKey, engine })
    await openValues(eaas, scene, made)
    outcome[engine] = await makeValues(eaas, scene)
    if (engine !== 'web') await checkSync(eaas, scene)
    eaas.close()
  }
  return outcome
}

async function checkSync(eaas, { keyId, context }) {
  await warm(eaas, keyId)
  equal(
    new TextDecoder().decode(decryptSync(eaas, encryptSync(eaas, 'at once', { keyId, context }), { context })),
    'at once',
  )
}

/** Gives the bytes in chunks that fit no segment. */
function source(bytes) {
  let at = 0
  return new ReadableStream({
    pull(controller) {
      if (at >= bytes.length) return controller.close()
      controller.enqueue(bytes.slice(at, at + 10_007))
      at += 10_007
    },
  })
}

async function collect(stream) {
  return new Uint8Array(await new Response(stream).arrayBuffer())
}

async function codeOf(call) {
  try {
    await call
    return 'none'
  } catch (error) {
    return isEaasError(error) ? error.code : `${error}`
  }
}

function equal(got, expected) {
  const [a, b] = [JSON.stringify(got), JSON.stringify(expected)]
  if (a !== b) throw new Error(`expected ${b}, got ${a}`)
}

function equalBytes(got, expected) {
  if (got.length !== expected.length || got.some((byte, at) => byte !== expected[at]))
    throw new Error('the bytes differ')
}

function fromBase64(text) {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0))
}

function toBase64(bytes) {
  let text = ''
  for (const byte of bytes) text += String.fromCharCode(byte)
  return btoa(text)
}
