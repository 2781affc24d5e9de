// What an application does: files of any size go encrypted into an object store and come back, as streams, by presigned URLs.
import { createReadStream, createWriteStream } from 'node:fs'
import { rename, rm, stat } from 'node:fs/promises'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { decryptStream, encryptStream, openRange } from '@eaas/sdk/streams'

/** @import { Client } from '@eaas/sdk' */
/** @import { RangeSource } from '@eaas/sdk/streams' */
/** @import { ReadableStream as NodeStream } from 'node:stream/web' */

const SEGMENT_BYTES = 65_536
const TAG_BYTES = 16
const HEADER_BYTES = 512

/**
 * Computes the length of an encrypted file, which stores demand before its first byte.
 *
 * @param {number} size of the file
 */
export function encryptedLength(size) {
  return HEADER_BYTES + size + TAG_BYTES * Math.max(1, Math.ceil(size / SEGMENT_BYTES))
}

/**
 * Encrypts a file and uploads it, a segment at a time. It is bound to its name in the store: under another name it does
 * not open.
 *
 * @param {Client} eaas
 * @param {{ path: string, url: string, name: string, keyId: string, signal?: AbortSignal }} options `url` is presigned for PUT
 */
export async function upload(eaas, { path, url, name, keyId, signal }) {
  const { size } = await stat(path)
  const plaintext = /** @type {ReadableStream<Uint8Array<ArrayBuffer>>} */ (Readable.toWeb(createReadStream(path)))
  const body = plaintext.pipeThrough(encryptStream(eaas, { keyId, context: { object: name }, signal }))
  /** @type {RequestInit & { duplex: 'half' }} */
  const init = { method: 'PUT', headers: { 'content-length': `${encryptedLength(size)}` }, body, duplex: 'half' }
  await assertDone(await fetch(url, { ...init, ...(signal && { signal }) }))
}

/**
 * Downloads a file and decrypts it. It gets its name only once it is whole: a truncated download leaves nothing that
 * looks like the file.
 *
 * @param {Client} eaas
 * @param {{ path: string, url: string, name: string, signal?: AbortSignal }} options `url` is presigned for GET
 */
export async function download(eaas, { path, url, name, signal }) {
  const { body } = await assertDone(await fetch(url, signal ? { signal } : {}))
  if (!body) throw new Error('the store answered without a body')
  const part = `${path}.part`
  try {
    const plaintext = body.pipeThrough(decryptStream(eaas, { context: { object: name }, signal }))
    await pipeline(Readable.fromWeb(/** @type {NodeStream} */ (plaintext)), createWriteStream(part, { mode: 0o600 }))
    await rename(part, path)
  } catch (error) {
    await rm(part, { force: true })
    throw error
  }
}

/**
 * Reads some bytes of a stored file, by requests with `Range`: only its header and the segments that hold them are downloaded.
 *
 * @param {Client} eaas
 * @param {{ url: string, name: string, from: number, to: number }} options `url` is presigned for GET
 */
export async function readPart(eaas, { url, name, from, to }) {
  /** @type {RangeSource} */
  const source = async (start, end) => {
    const response = await fetch(url, { headers: { range: `bytes=${start}-${end - 1}` } })
    if (response.status === 416) return new Uint8Array(0) // the object ends before `start`
    return new Uint8Array(await (await assertDone(response)).arrayBuffer())
  }
  return new Uint8Array(
    await new Response(openRange(eaas, source, { from, to, context: { object: name } })).arrayBuffer(),
  )
}

/** @param {Response} response */
async function assertDone(response) {
  if (response.ok) return response
  throw new Error(`the store answered ${response.status}: ${await response.text()}`)
}
