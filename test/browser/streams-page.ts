// What the page of the streams' test loads: it encrypts a file that a user chose, and decrypts it again.
import { createClient } from '../../packages/sdk/src/index.js'
import { decryptStream, encryptStream, openRange } from '../../packages/sdk/src/streams.js'
import { createTestService } from '../../packages/sdk/src/testing.js'

const api = { throughStreams, cancelEarly }
declare global {
  var streams: typeof api
}
globalThis.streams = api

const context = { file: 'chosen' }

function chosen(): File {
  const file = document.querySelector('input')?.files?.[0]
  if (!file) throw new Error('no file was chosen')
  return file
}

/** Encrypts the chosen file to a Blob, decrypts it, and compares each byte with the file's; opens its last bytes by `openRange`. */
async function throughStreams() {
  const eaas = createClient(createTestService())
  const { id: keyId } = await eaas.keys.create({ name: 'files' })
  const file = chosen()
  const stored = await new Response(file.stream().pipeThrough(encryptStream(eaas, { keyId, context }))).blob()
  const decrypted = stored.stream().pipeThrough(decryptStream(eaas, { context })).getReader()
  let bytes = 0
  let isSame = true
  for (let read = await decrypted.read(); !read.done; read = await decrypted.read()) {
    const given = new Uint8Array(await file.slice(bytes, bytes + read.value.length).arrayBuffer())
    isSame &&= read.value.every((byte, at) => byte === given[at])
    bytes += read.value.length
  }
  const end = await new Response(openRange(eaas, stored, { from: file.size - 10, context })).text()
  eaas.close()
  return { bytes, isSame, stored: stored.size, isEndSame: end === (await file.slice(-10).text()) }
}

/** Reads the first chunk of the encrypted file, cancels, and says how much of the file had been read. */
async function cancelEarly() {
  const eaas = createClient(createTestService())
  const { id: keyId } = await eaas.keys.create({ name: 'files' })
  let read = 0
  const counting = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      read += chunk.length
      controller.enqueue(chunk)
    },
  })
  const encrypted = chosen().stream().pipeThrough(counting).pipeThrough(encryptStream(eaas, { keyId, context }))
  const reader = encrypted.getReader()
  await reader.read()
  await reader.read()
  await reader.cancel()
  await new Promise((resolve) => setTimeout(resolve, 200))
  eaas.close()
  return read
}
