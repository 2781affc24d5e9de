/** What a command works with: the streams, environment and end of a process, or of a test. And its errors. */
import type { Readable, Writable } from 'node:stream'
import { visibleLine } from '@eaas/protocol'
import type { EaasError, Fetch } from '@eaas/sdk'

export interface Io {
  env: Readonly<Record<string, string | undefined>>
  /** The folder to which paths are relative. */
  folder: string
  stdin: Readable & { isTTY?: boolean | undefined }
  stdout: Writable & { isTTY?: boolean | undefined }
  stderr: Writable & { isTTY?: boolean | undefined }
  /** Aborted by Ctrl-C. The reason is the signal's name. */
  signal: AbortSignal
  fetch?: Fetch | undefined
}

/** An error that the caller of the command can correct. Exit code 2. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** A mistake in the options or arguments themselves, which the command's help describes. */
export class ArgumentsError extends UsageError {}

export const USAGE = 2
/** Exit code if a value does not decrypt: it was altered, or has another context or key. */
export const NOT_AUTHENTIC = 3

/** Any other failure that needs no stack. */
export class CommandError extends Error {
  override readonly name = 'CommandError'

  constructor(
    message: string,
    readonly exitCode = 1,
  ) {
    super(message)
  }
}

/** Prints lines in one write, which a pipe takes as a whole: a reader that stops after the first line interrupts nothing. */
export function print({ stdout }: Io, ...lines: readonly string[]): Promise<void> {
  return write(stdout, lines.map((line) => `${visibleLine(line)}\n`).join(''))
}

export function tell(io: Io, line: string): void {
  io.stderr.write(`${visibleLine(line)}\n`)
}

/** Writes to standard output, and waits until the chunk is taken. @throws CommandError unless the reader stopped */
export function write(stdout: Writable, chunk: string | Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    stdout.write(chunk, (error) => (error ? reject(explainLost(error)) : resolve()))
  })
}

function explainLost(error: NodeJS.ErrnoException): Error {
  return error.code === 'EPIPE' ? error : new CommandError(`standard output cannot be written (${error.code})`)
}

/** Whether a text has no control characters except tabs and line breaks: a terminal would obey them. */
export function isPlain(text: string): boolean {
  return !/[^\P{Cc}\t\n\r]/u.test(text)
}

interface Words {
  name: string
  /** what to do about it here, if the SDK's advice does not fit */
  remedy?: string
}

const OPTIONS: Readonly<Record<string, Words>> = {
  baseUrl: {
    name: 'EAAS_URL',
    remedy:
      'Set it to an absolute URL, such as https://example.org/eaas; for http to another machine also pass --allow-insecure.',
  },
  apiKey: { name: 'the API key' },
  batchSize: { name: '--batch-size' },
  rowsPerSecond: { name: '--rows-per-second' },
  columns: { name: '--column', remedy: 'Name it by --column <name=column>.' },
  key: {
    name: '--key-columns',
    remedy: 'Name columns of a unique index by --key-columns, none of which may be null, of types such as uuid.',
  },
  read: { name: '--read' },
  after: {
    name: 'the key in the file of --state',
    remedy: 'Remove the file to begin at the first row: rows that are done cost reading only.',
  },
}

/** Puts the SDK's errors about its options into words of the command, whose options differ. */
export function inCommandWords(error: EaasError): { message: string; hint: string } {
  const { code, message, hint } = error
  if (code === 'E_API' && error.httpStatus === 401) {
    return { message, hint: 'Check the API key: it is missing, unknown, expired or revoked.' } // the command has no broker
  }
  const option = code === 'E_INVALID_INPUT' ? error.option : undefined
  const words = option === undefined ? undefined : OPTIONS[option]
  if (option === undefined || words === undefined) return { message, hint }
  const [first = ''] = message.split(/\W/, 1)
  return { message: first === option ? words.name + message.slice(option.length) : message, hint: words.remedy ?? hint }
}
