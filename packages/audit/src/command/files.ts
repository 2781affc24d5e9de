/** Reads and creates the files that a command is given, with errors that say what is wrong. `-` is a standard stream. */
import { createReadStream } from 'node:fs'
import { access, constants, readFile, stat } from 'node:fs/promises'
import { resolve } from 'node:path'
import { explainUnwritten, PATH_REASONS } from '@eaas/protocol'
import { createFileBy, createFolder } from '../node/new-file.js'

export class CommandError extends Error {
  override readonly name = 'CommandError'
}

const REASONS: typeof PATH_REASONS = { ...PATH_REASONS, EEXIST: 'it exists already, and is not overwritten' }

/** The longest file that is read into memory. Only a file of checkpoints grows so long, after years. */
const MOST_BYTES = 256 * 1_048_576

export const STANDARD_STREAM = '-'

/** The text of each standard input: a command that names it twice gets the same text. */
const texts = new WeakMap<object, Promise<string>>()
const opened = new WeakSet<object>()

/** Reads a file as text; `-` is standard input. @throws CommandError if it cannot be read, or is too long */
export async function readGiven(path: string): Promise<string> {
  if (path === STANDARD_STREAM) {
    const text = texts.get(process.stdin) ?? readShort(openStandardInput())
    texts.set(process.stdin, text)
    return text
  }
  const { size } = await stat(path).catch((error: unknown) => refuse(path, error))
  if (size > MOST_BYTES) refuseLong(path)
  return readFile(path, 'utf8').catch((error: unknown) => refuse(path, error))
}

/** Opens a file that is read once as a stream; `-` is standard input. @throws CommandError */
export async function openGiven(path: string): Promise<OpenedFile> {
  if (path === STANDARD_STREAM) return { chunks: openStandardInput(), progress: () => undefined }
  await assertFile(path)
  const { size } = await stat(path)
  const stream = createReadStream(path)
  return { chunks: stream, progress: () => stream.bytesRead / size }
}

function openStandardInput(): NodeJS.ReadStream {
  const { stdin } = process
  if (stdin.isTTY) throw new CommandError('standard input is a terminal: name a file, or pipe something in')
  if (opened.has(stdin)) throw new CommandError('standard input is read once: give one - only, and name other files')
  opened.add(stdin)
  return stdin
}

async function readShort(chunks: AsyncIterable<Uint8Array>): Promise<string> {
  const all: Uint8Array[] = []
  let size = 0
  for await (const chunk of chunks) {
    all.push(chunk)
    size += chunk.length
    if (size > MOST_BYTES) refuseLong(STANDARD_STREAM)
  }
  return Buffer.concat(all).toString()
}

function refuseLong(path: string): never {
  throw new CommandError(
    `${path} is longer than 256 MiB. Of a file of checkpoints, give its newest lines: tail -n 200000 ${path} > newest`,
  )
}

export interface OpenedFile {
  chunks: AsyncIterable<Uint8Array>
  /** the fraction that was read, 0 to 1; undefined if the size is unknown */
  progress(): number | undefined
}

export async function assertFile(path: string): Promise<void> {
  try {
    await access(path, constants.R_OK)
    if ((await stat(path)).isDirectory()) throw Object.assign(new Error(), { code: 'EISDIR' })
  } catch (error) {
    refuse(path, error)
  }
}

export interface Sink {
  write(chunk: string | Uint8Array): Promise<unknown>
}

/** Creates a private file whole or not at all; never overwrites. `-` is standard output. @throws CommandError */
export async function createNew(path: string, text: string): Promise<void> {
  await createNewBy(path, (sink) => sink.write(text))
}

/** Like `createNew`, but `write` streams the content, which may exceed memory. The path is checked first. */
export async function createNewBy<Made>(
  path: string,
  write: (sink: Sink) => Promise<Made>,
  { isText = true } = {},
): Promise<Made> {
  if (path === STANDARD_STREAM) {
    if (process.stdout.isTTY && !isText)
      throw new CommandError('standard output is a terminal, and the result is no text: name a file, or pipe it on')
    return write({ write: toStandardOutput })
  }
  let made: { value: Made } | undefined
  const creating = createFileBy(resolve(path), async (file) => {
    made = { value: await write({ write: (chunk) => file.writeFile(chunk) }) }
  })
  await assertCreated(path, creating)
  return made ? made.value : refuse(path, { code: 'EEXIST' })
}

function toStandardOutput(chunk: string | Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    process.stdout.write(chunk, (error: NodeJS.ErrnoException | null | undefined) =>
      error ? reject(new CommandError(`standard output did not take the result (${error.code})`)) : resolve(),
    )
  })
}

/** Like `createNew`, for a folder; the texts of its files by name. */
export async function createNewFolder(path: string, texts: ReadonlyMap<string, string>): Promise<void> {
  await assertCreated(path, createFolder(resolve(path), texts))
}

async function assertCreated(path: string, creating: Promise<boolean>): Promise<void> {
  const isCreated = await creating.catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(explainUnwritten(resolve(path), error))
  })
  if (!isCreated) refuse(path, { code: 'EEXIST' })
}

function refuse(path: string, error: unknown): never {
  const { code = '' } = error as NodeJS.ErrnoException
  const reason = REASONS[code]
  if (reason === undefined) throw error
  throw new CommandError(`${path}: ${reason}`)
}
