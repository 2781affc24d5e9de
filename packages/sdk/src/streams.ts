/**
 * `@eaas/sdk/streams`: encrypts and decrypts files of any size as streams of bytes, with little memory, and opens parts
 * of them. Follows stream.md. A separate entry, since most pages encrypt only values and would download it for nothing.
 */
import { type Context, encodeContext, MAX_SEGMENTS, SEGMENT_BYTES, streamAad } from '@eaas/protocol'
import type { Client } from './client.js'
import { InvalidInputError } from './errors.js'
import type { Binary, Bytes, DekScope } from './input.js'
import { assertGiven, assertKeyId, assertScope, assertWhole, readDemand, readSignal } from './input.js'
import { readingContext } from './records/bound-envelopes.js'
import { clientParts } from './records/client-parts.js'
import type { CallOptions } from './resources/keys.js'
import { createReadable, createTransform } from './streams/byte-streams.js'
import { createReader, openPart, type RangeSource } from './streams/open-range.js'
import { openStream, type StreamDemand } from './streams/open-stream.js'
import { rewrapChunks, rewrapLine, sealStream } from './streams/seal-stream.js'

export type { Context } from '@eaas/protocol'
export type { Binary, Bytes, DekScope } from './input.js'
export type { RangeSource } from './streams/open-range.js'

/** The longest plaintext of a stream (stream.md 4). */
const MAX_STREAM_BYTES = MAX_SEGMENTS * SEGMENT_BYTES

export interface EncryptStreamOptions extends CallOptions {
  /** The `id` of the key under which the stream is sealed. */
  keyId: string
  /** Binds the stream: it decrypts only with the same context, a flat object of at most 32 strings, which is not stored. */
  context?: Context
  /** Which DEK seals: the key's (`shared`), or one for this stream (`call` or `record`), which takes a wrap each time. */
  dek?: DekScope | undefined
}

export interface DecryptStreamOptions extends CallOptions {
  /** The context under which the stream was encrypted. A stream that is bound to another one does not open. */
  context?: Context
  /** The ids of keys under which it may be encrypted; any by default. An explicit `undefined` is refused. */
  keyIds?: readonly string[]
}

export interface RangeOptions extends DecryptStreamOptions {
  /** The first byte of the plaintext to open; 0 by default. Unless it is 0, it must lie within the plaintext. */
  from?: number | undefined
  /** The offset after the last byte to open; by default, or if it is too large, the end of the plaintext. */
  to?: number | undefined
}

/** A new first line for a stored stream. */
export interface RewrappedLine {
  /** Its length is a multiple of 512 bytes. */
  line: Bytes
  /** How many bytes at the start of the stored stream it replaces. This is nearly always its own length. */
  replaces: number
}

/**
 * Makes a pair of streams that encrypts: write the bytes of a file, read the encrypted stream to store (stream.md).
 * Keeps one segment of 64 KiB in memory, whatever the length. Uses the network at the first read, and only if the
 * client has no DEK of the key.
 *
 * The errors of the client's calls end the stream. If the source fails or the reader cancels, both sides end, and the
 * stream's key is zeroed.
 * @throws InvalidInputError when an option is wrong
 * @example
 * ```ts
 * const encrypted = file.stream().pipeThrough(encryptStream(eaas, { keyId, context: { table: 'uploads', file: id } }))
 * await fetch(url, { method: 'PUT', body: encrypted, duplex: 'half' } as RequestInit)
 * ```
 */
export function encryptStream(eaas: Client, options: EncryptStreamOptions): TransformStream<Binary, Bytes> {
  const load = clientParts(eaas)
  const signal = readSignal('encryptStream()', options, ['keyId', 'context', 'dek', 'signal'])
  const { keyId, dek = 'shared' } = options
  assertKeyId(keyId)
  assertScope(dek)
  assertGiven(options, ['context'])
  const aad = streamAad(keyId, readPairs(options.context))
  return createTransform((chunks, lifetime) => sealStream(chunks, { load, keyId, dek, aad }, lifetime), signal)
}

/**
 * Makes a pair of streams that decrypts: write an encrypted stream, read its plaintext. Releases no byte of a segment
 * before verifying its tag. If the stream was truncated, altered or reordered, it ends with an error. The bytes read
 * until then are authentic but incomplete, so use them only once the stream has ended without an error. Uses the
 * network if the DEK is not cached.
 *
 * Its errors are `E_INVALID_INPUT` if the written bytes are not an encrypted stream, `E_DECRYPTION` if it does not open
 * for another reason, and those of the client's calls.
 * @throws InvalidInputError when an option is wrong
 * @example
 * ```ts
 * const { body } = await fetch(url)
 * const decrypted = body?.pipeThrough(decryptStream(eaas, { context: { table: 'uploads', file: id } }))
 * ```
 */
export function decryptStream(eaas: Client, options: DecryptStreamOptions = {}): TransformStream<Binary, Bytes> {
  const load = clientParts(eaas)
  const signal = readSignal('decryptStream()', options, ['context', 'keyIds', 'signal'])
  const demand = readStreamDemand(options)
  return createTransform((chunks, lifetime) => openStream(chunks, { load, ...demand }, lifetime), signal)
}

/**
 * Opens a part of a stored stream: reads its header and the segments of that part, at most 1 MiB at a time, as the part
 * is read. Releases no byte before verifying the tag of its segment. Segments that are not read are not verified. If
 * the part reaches the end, also checks that nothing is missing there. Uses the network if the DEK is not cached.
 * @param source a `Blob` or `File`, or a function that reads a range, for example by an HTTP request with `Range`
 * @throws InvalidInputError when an option is wrong; the stream ends with the errors of `decryptStream`
 * @example
 * ```ts
 * const part = openRange(eaas, file, { from: 1_000_000, to: 1_001_000, context: { table: 'uploads', file: id } })
 * const bytes = new Uint8Array(await new Response(part).arrayBuffer())
 * ```
 */
export function openRange(eaas: Client, source: RangeSource, options: RangeOptions = {}): ReadableStream<Bytes> {
  const load = clientParts(eaas)
  const signal = readSignal('openRange()', options, ['from', 'to', 'context', 'keyIds', 'signal'])
  const { from = 0, to } = options
  assertWhole('from', from, 0, MAX_STREAM_BYTES)
  if (to !== undefined) assertWhole('to', to, 0, Number.MAX_SAFE_INTEGER)
  if (to !== undefined && to < from) throw new InvalidInputError('to must not be less than from')
  const demand = readStreamDemand(options)
  const reader = createReader(source)
  const part = { from, to: to ?? Number.POSITIVE_INFINITY }
  return createReadable((lifetime) => openPart(reader(lifetime.signal), { load, ...demand, part }, lifetime), signal)
    .readable
}

/**
 * Makes a pair of streams that rewraps: write an encrypted stream, read the same stream with its DEK wrapped under the
 * current version of its key. Only the first line changes. Takes one request, which needs `wrap` and `unwrap`; the
 * service does not return the DEK.
 * @throws InvalidInputError when an option is wrong; the stream ends with `E_INVALID_INPUT` if the written bytes are
 * not an encrypted stream
 */
export function rewrapStream(eaas: Client, options?: CallOptions): TransformStream<Binary, Bytes> {
  const load = clientParts(eaas)
  const signal = readSignal('rewrapStream()', options)
  return createTransform((chunks, lifetime) => rewrapChunks(chunks, load, lifetime), signal)
}

/**
 * Rewraps a stored stream, of which it reads only the header. Returns the new first line, for a store that can
 * overwrite the first bytes of a file. If `replaces` is not the length of the line, copy the stream with `rewrapStream`
 * instead. Otherwise as `rewrapStream`.
 * @example
 * ```ts
 * const { line, replaces } = await rewrapFirstLine(eaas, file)
 * if (line.length === replaces) await handle.write(line, 0, line.length, 0)
 * ```
 */
export async function rewrapFirstLine(
  eaas: Client,
  source: RangeSource,
  options?: CallOptions,
): Promise<RewrappedLine> {
  const load = clientParts(eaas)
  const signal = readSignal('rewrapFirstLine()', options)
  const read = createReader(source)(signal ?? new AbortController().signal)
  return rewrapLine(read, load, signal) as Promise<RewrappedLine>
}

function readStreamDemand(options: DecryptStreamOptions): Omit<StreamDemand, 'load'> {
  const { context, keyIds } = readDemand(options)
  return { pairs: readPairs(context), keyIds }
}

function readPairs(context: Context = {}): Uint8Array {
  return readingContext(() => encodeContext(context))
}
