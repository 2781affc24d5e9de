/**
 * `@eaas/sdk/streams`: encrypts and decrypts files of any size as streams of bytes, with little memory, and
 * opens parts of them. Follows stream.md. An entry of its own, since most pages encrypt values only and would
 * download it for nothing.
 */
import { type Context, encodeContext, MAX_SEGMENTS, SEGMENT_BYTES, streamAad } from '@eaas/protocol'
import type { Client } from './client.js'
import { InvalidInputError } from './errors.js'
import {
  assertGiven,
  assertKeyId,
  assertNotAborted,
  assertOptions,
  assertScope,
  assertWhole,
  type Binary,
  type Bytes,
  type DekScope,
  readDemand,
} from './input.js'
import { readingContext } from './records/bound-envelopes.js'
import { clientParts } from './records/client-parts.js'
import type { CallOptions } from './resources/keys.js'
import { createReadable, createTransform } from './streams/byte-streams.js'
import { openPart } from './streams/open-range.js'
import { openStream, type StreamDemand } from './streams/open-stream.js'
import { createReader, type RangeSource } from './streams/range-source.js'
import { rewrapChunks, rewrapLine } from './streams/rewrap-stream.js'
import { sealStream } from './streams/seal-stream.js'

export type { Context } from '@eaas/protocol'
export type { Binary, Bytes, DekScope } from './input.js'
export type { RangeSource } from './streams/range-source.js'

/** The longest plaintext of a stream (stream.md 4). */
const MAX_STREAM_BYTES = MAX_SEGMENTS * SEGMENT_BYTES

export interface EncryptStreamOptions extends CallOptions {
  /** The `id` of the key under which the stream is sealed. */
  keyId: string
  /**
   * Binds the stream to where it belongs: it then decrypts with the same context only. A flat object of at
   * most 32 strings, which is not stored.
   */
  context?: Context
  /**
   * Which DEK seals: the key's (`shared`), or one for this stream alone (`call` or `record`), which costs a
   * wrap each time.
   */
  dek?: DekScope | undefined
}

export interface DecryptStreamOptions extends CallOptions {
  /**
   * The context under which the stream was encrypted. A stream that is bound to another one does not open.
   */
  context?: Context
  /**
   * The ids of the keys under which it may be encrypted; any key of the tenant by default. Refused where it is
   * undefined, as a forgotten variable is.
   */
  keyIds?: readonly string[]
}

export interface RangeOptions extends DecryptStreamOptions {
  /**
   * The first byte of the plaintext to open; 0 by default. It must lie within the plaintext, unless it is 0.
   */
  from?: number | undefined
  /**
   * The byte behind the last one to open; the end of the plaintext by default, and where it lies behind the
   * end.
   */
  to?: number | undefined
}

/** A new first line for a stored stream. */
export interface RewrappedLine {
  /** The line, a multiple of 512 bytes. */
  line: Bytes
  /**
   * How many bytes of the stored stream it replaces, from the first one on: nearly always as many as it has.
   */
  replaces: number
}

/**
 * Makes a pair of streams that encrypts: what is written are the bytes of a file, what is read is the
 * encrypted stream to store (stream.md). Holds a segment of 64 KiB, whatever the length. Uses the network
 * when it is first read, only if the client holds no DEK of the key.
 *
 * Besides what the function throws, the stream ends with the errors of the client's calls. An error of the
 * source, or a reader that cancels, ends both sides and zeroes the stream's key.
 *
 * @throws InvalidInputError when an option is wrong
 * @example
 * ```ts
 * const encrypted = file.stream().pipeThrough(encryptStream(eaas, { keyId, context: { table: 'uploads', file: id } }))
 * await fetch(url, { method: 'PUT', body: encrypted, duplex: 'half' } as RequestInit)
 * ```
 */
export function encryptStream(eaas: Client, options: EncryptStreamOptions): TransformStream<Binary, Bytes> {
  const load = clientParts(eaas)
  assertOptions('encryptStream()', options, [
    'keyId',
    'context',
    'dek',
    'signal',
  ] satisfies (keyof EncryptStreamOptions)[])
  const { keyId, dek = 'shared', signal } = options
  assertNotAborted(signal)
  assertKeyId(keyId)
  assertScope(dek)
  assertGiven(options, ['context'])
  const aad = streamAad(keyId, readPairs(options.context))
  return createTransform((chunks, lifetime) => sealStream(chunks, { load, keyId, dek, aad }, lifetime), signal)
}

/**
 * Makes a pair of streams that decrypts: what is written is an encrypted stream, what is read is its
 * plaintext. Gives out no byte of a segment before its tag was verified. If the stream was cut, altered or
 * reordered, it ends with an error: what was read before is authentic, but only a beginning, so use it only
 * once the stream has ended without one. Uses the network where the DEK is not cached.
 *
 * Its errors: `E_INVALID_INPUT` when what is written is no encrypted stream, `E_DECRYPTION` for all else that
 * does not open, and those of the client's calls.
 *
 * @throws InvalidInputError when an option is wrong
 * @example
 * ```ts
 * const { body } = await fetch(url)
 * const decrypted = body?.pipeThrough(decryptStream(eaas, { context: { table: 'uploads', file: id } }))
 * ```
 */
export function decryptStream(eaas: Client, options: DecryptStreamOptions = {}): TransformStream<Binary, Bytes> {
  const load = clientParts(eaas)
  assertOptions('decryptStream()', options, ['context', 'keyIds', 'signal'] satisfies (keyof DecryptStreamOptions)[])
  const { signal } = options
  assertNotAborted(signal)
  const demand = readStreamDemand(options)
  return createTransform((chunks, lifetime) => openStream(chunks, { load, ...demand }, lifetime), signal)
}

/**
 * Opens a part of a stored stream: reads its header and the segments of that part, at most 1 MiB at a time,
 * as the part is read. Gives out no byte before the tag of its segment was verified. What was not read is not
 * verified; where the part reaches the end, so does the check that nothing is missing there. Uses the network
 * where the DEK is not cached.
 *
 * @param source a `Blob` or `File`, or a function that reads a range, for example by an HTTP request with
 * `Range`
 * @throws InvalidInputError when an option is wrong; the stream ends with the errors of `decryptStream`
 * @example
 * ```ts
 * const part = openRange(eaas, file, { from: 1_000_000, to: 1_001_000, context: { table: 'uploads', file: id } })
 * const bytes = new Uint8Array(await new Response(part).arrayBuffer())
 * ```
 */
export function openRange(eaas: Client, source: RangeSource, options: RangeOptions = {}): ReadableStream<Bytes> {
  const load = clientParts(eaas)
  assertOptions('openRange()', options, ['from', 'to', 'context', 'keyIds', 'signal'] satisfies (keyof RangeOptions)[])
  const { from = 0, to, signal } = options
  assertNotAborted(signal)
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
 * Makes a pair of streams that rewraps: what is read is the encrypted stream that was written, with the DEK
 * wrapped under the current version of its key. Only the first line changes. The service does not return the
 * DEK; one request, which needs `wrap` and `unwrap`.
 *
 * @throws InvalidInputError when an option is wrong; the stream ends with `E_INVALID_INPUT` when what is
 * written is no encrypted stream
 */
export function rewrapStream(eaas: Client, options: CallOptions = {}): TransformStream<Binary, Bytes> {
  const load = clientParts(eaas)
  assertOptions('rewrapStream()', options, ['signal'])
  assertNotAborted(options.signal)
  return createTransform((chunks, lifetime) => rewrapChunks(chunks, load, lifetime), options.signal)
}

/**
 * Rewraps a stored stream without reading more than its header: returns the new first line, for a store that
 * can write over the first bytes of a file. Where `replaces` is not the length of the line, the stream has to
 * be copied by `rewrapStream`. Otherwise as `rewrapStream`.
 *
 * @example
 * ```ts
 * const { line, replaces } = await rewrapFirstLine(eaas, file)
 * if (line.length === replaces) await handle.write(line, 0, line.length, 0)
 * ```
 */
export async function rewrapFirstLine(
  eaas: Client,
  source: RangeSource,
  options: CallOptions = {},
): Promise<RewrappedLine> {
  const load = clientParts(eaas)
  assertOptions('rewrapFirstLine()', options, ['signal'])
  assertNotAborted(options.signal)
  const read = createReader(source)(options.signal ?? new AbortController().signal)
  const { line, replaces } = await rewrapLine(read, load, options.signal)
  return { line: line as Bytes, replaces }
}

function readStreamDemand(options: DecryptStreamOptions): StreamDemand {
  const { context, keyIds } = readDemand(options)
  return { pairs: readPairs(context), keyIds }
}

function readPairs(context: Context = {}): Uint8Array {
  return readingContext(() => encodeContext(context))
}
