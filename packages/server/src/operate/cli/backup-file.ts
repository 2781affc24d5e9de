/** The file of a backup: the lines of `operate/store/all-rows.ts`, compressed, and encrypted to recipients of age. */
import { pipeline as pipe, Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { ReadableStream } from 'node:stream/web'
import { constants, createGunzip, createGzip } from 'node:zlib'
import { CommandError, openGiven, readGiven, type Sink } from '@eaas/audit/command'
import { AGE_MAGIC, decryptStreamBy, encryptStreamTo } from '../../root-keys/age.js'
import { RowsError } from '../store/all-rows.js'

const GZIP_MAGIC = '\u001f\u008b'

/** Reads recipients before anything else is done. @throws RecipientError */
export async function createWriter(
  recipients: readonly string[],
): Promise<(sink: Sink, lines: AsyncIterable<string>) => Promise<void>> {
  const encrypt = recipients.length === 0 ? undefined : await encryptStreamTo(recipients)
  return async (sink, lines) => {
    // The bytes are in hexadecimal, which the fastest level compresses as well as any other.
    const packed = Readable.from(lines).compose(createGzip({ level: constants.Z_BEST_SPEED })) as unknown as Readable
    const sealed = encrypt ? fromWeb(await encrypt(toWeb(packed))) : packed
    await pipeline(sealed, async (chunks: AsyncIterable<Uint8Array>) => {
      for await (const chunk of chunks) await sink.write(chunk)
    })
  }
}

/** `-` is standard input. @throws CommandError, DecryptError; while it is read, RowsError if it was changed */
export async function openBackup(path: string, identity: string | undefined): Promise<AsyncIterable<Uint8Array>> {
  const { begin, whole } = await peek((await openGiven(path)).chunks)
  if (begin.startsWith(GZIP_MAGIC)) return unpack(whole)
  if (!begin.startsWith(AGE_MAGIC)) throw new RowsError(`${path} is no backup of eaas, or was changed.`)
  if (identity === undefined) {
    throw new CommandError(
      `${path} is encrypted: give the file of an identity that it is encrypted to (--identity), or decrypt it: age -d -i identity ${path} | eaas restore -`,
    )
  }
  return unpack(fromWeb(await decryptStreamBy(await readGiven(identity), toWeb(whole))))
}

async function peek(source: AsyncIterable<Uint8Array>): Promise<{ begin: string; whole: Readable }> {
  const chunks = source[Symbol.asyncIterator]()
  let first = Buffer.alloc(0)
  while (first.length < AGE_MAGIC.length) {
    const { done, value } = await chunks.next()
    if (done) break
    first = Buffer.concat([first, value])
  }
  async function* all() {
    yield first
    for (;;) {
      const { done, value } = await chunks.next()
      if (done) return
      yield value
    }
  }
  return { begin: first.subarray(0, AGE_MAGIC.length).toString('latin1'), whole: Readable.from(all()) }
}

async function* unpack(packed: Readable): AsyncGenerator<Uint8Array> {
  const gunzip = createGunzip()
  // An error of either stream ends the loop below; with `packed.compose(gunzip)`, errors would end the process.
  pipe(packed, gunzip, () => undefined)
  try {
    yield* gunzip as AsyncIterable<Uint8Array>
  } catch (error) {
    if (error instanceof Error && 'syscall' in error) throw error // the file could not be read
    throw new RowsError('The backup was changed or cut short.')
  }
}

// The types of Node's streams and of the library's differ only in their names.
function toWeb(stream: Readable): globalThis.ReadableStream<Uint8Array> {
  return Readable.toWeb(stream) as unknown as globalThis.ReadableStream<Uint8Array>
}

function fromWeb(stream: globalThis.ReadableStream<Uint8Array>): Readable {
  return Readable.fromWeb(stream as unknown as ReadableStream)
}
