/** What a command works with: the streams, the environment and the end of a process, or of a test. */
import type { Readable, Writable } from 'node:stream'
import type { Fetch } from '@eaas/sdk'

export interface Io {
  env: Readonly<Record<string, string | undefined>>
  /** The folder that relative paths start from. */
  folder: string
  stdin: Readable & { isTTY?: boolean | undefined }
  stdout: Writable & { isTTY?: boolean | undefined }
  stderr: Writable & { isTTY?: boolean | undefined }
  /** Aborted by Ctrl-C; its reason is the name of the signal. */
  signal: AbortSignal
  /** Replaces `fetch`, for tests. */
  fetch?: Fetch | undefined
}

/** What whoever called the command can correct. Exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** What is wrong with the options and arguments themselves, which the help of the command describes. */
export class ArgumentsError extends UsageError {}

/** Exit code of what whoever called the command can correct. */
export const USAGE = 2
/** Exit code of what does not decrypt: altered, another context, or another key. */
export const NOT_AUTHENTIC = 3

/** What failed otherwise, with a message that is enough. */
export class CommandError extends Error {
  override readonly name = 'CommandError'
  readonly exitCode: number

  constructor(message: string, exitCode = 1) {
    super(message)
    this.exitCode = exitCode
  }
}

/**
 * Prints lines on standard output, by one write, which a pipe takes whole: whoever reads only the first of
 * them stops nothing.
 */
export function print({ stdout }: Io, ...lines: readonly string[]): Promise<void> {
  return write(stdout, lines.map((line) => `${printable(line)}\n`).join(''))
}

/** Prints a line on standard error. */
export function tell(io: Io, line: string): void {
  io.stderr.write(`${printable(line)}\n`)
}

/** Writes to a stream, and waits until it was taken. */
export function write(stream: Writable, chunk: string | Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    stream.write(chunk, (error) => (error ? reject(error) : resolve()))
  })
}

/** Tells whether a text has nothing that a terminal would obey, besides tabs and line breaks. */
export function isPlain(text: string): boolean {
  return !/[^\P{Cc}\t\n\r]/u.test(text)
}

/**
 * Escapes characters that a terminal would obey, or show in another order: names and messages may come from
 * files and from the service.
 */
export function printable(line: string): string {
  return line.replace(
    /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}
