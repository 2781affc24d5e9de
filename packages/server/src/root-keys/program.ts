/** Runs a program that an operator named, for the providers `command` and `exec`. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { beforeEnd } from '@eaas/audit/node'
import { readJson } from '@eaas/protocol'
import { RefusedPinError, RootKeyError } from '../core/crypto/root-key.js'

/** How long a program may take, in milliseconds: a person may have to touch a token. */
const PATIENCE_MS = 60_000
/** How long a program may take to end after SIGTERM, in milliseconds. */
const GRACE_MS = 2_000
/** The exit code of a program whose PIN was refused. It is not called again, since the device could lock itself. */
export const PIN_REFUSED = 6
/** What a program may answer with, in bytes. */
const MOST_BYTES = 65_536

/**
 * Reads a program and its arguments: words separated by blanks, or a JSON array of strings, for arguments with
 * blanks. No shell reads them. @throws RootKeyError
 */
export function readCommandLine(text: string, variable: string): [string, ...string[]] {
  const words = text.trimStart().startsWith('[') ? readJson(text) : text.split(/\s+/).filter((word) => word !== '')
  if (!Array.isArray(words) || words.length === 0 || words.some((word) => typeof word !== 'string')) {
    throw new RootKeyError(
      `${variable} must be a program and its arguments between blanks, or a JSON array of strings, such as ["pass", "show", "root key"].`,
    )
  }
  return words as [string, ...string[]]
}

export interface ProgramOptions {
  /** what messages call it, before its name */
  what: string
  /** environment variables in addition to ours */
  variables?: Readonly<Record<string, string>>
  /** whether its standard error is shown only if it fails; by default it shares ours, so that it can prompt */
  isQuiet?: boolean
  /** whether it was refused a PIN, by its exit code and, if it is quiet, its standard error */
  isPinRefused?: (code: number | null, said: string) => boolean
}

/**
 * Runs a program with this standard input and returns its standard output, which the caller zeroes. If this
 * process ends, so does the program.
 *
 * @throws RootKeyError if it cannot be started, fails, or takes too long; RefusedPinError
 */
export async function runProgram(
  [program, ...args]: [string, ...string[]],
  input: Uint8Array,
  { what, variables = {}, isQuiet = false, isPinRefused = (code) => code === PIN_REFUSED }: ProgramOptions,
): Promise<Buffer> {
  const chunks: Buffer[] = []
  const said: Buffer[] = []
  const fail = (how: string, Kind = RootKeyError) => {
    for (const chunk of said) process.stderr.write(chunk)
    return new Kind(`${what} ${program} ${how}.`)
  }
  try {
    // Without a terminal, the program has a process group of its own, so that ending it ends all that it started.
    // On a terminal it stays in ours, so that it can prompt and Ctrl-C reaches it.
    const detached = !process.stdin.isTTY && !process.stderr.isTTY
    const { EAAS_DATABASE_URL: _, EAAS_ROOT_KEY: __, ...env } = { ...process.env, ...variables } // secrets of ours
    const child = spawn(program, args, { env, detached, stdio: ['pipe', 'pipe', isQuiet ? 'pipe' : 'inherit'] })
    const { code, signal, excess } = await converse(child, { input, chunks, said, detached })
    if (excess !== undefined) throw fail(excess)
    if (signal !== null) throw fail(`was ended by ${signal}`)
    if (isPinRefused(code, Buffer.concat(said).toString())) throw fail(PIN_ADVICE, RefusedPinError)
    if (code !== 0) throw fail(`ended with exit code ${code}. It may have printed why`)
    return Buffer.concat(chunks)
  } catch (error) {
    if (error instanceof RootKeyError) throw error
    throw fail(`cannot be started (${(error as NodeJS.ErrnoException).code})`)
  } finally {
    for (const chunk of chunks) chunk.fill(0)
  }
}

const PIN_ADVICE = 'was refused its PIN. Correct it before anything asks again: a device locks it after a few tries'

interface Conversation {
  input: Uint8Array
  /** receive what it writes to standard output and, if that is a pipe, to standard error */
  chunks: Buffer[]
  said: Buffer[]
  /** whether it has a process group of its own */
  detached: boolean
}

/** Waits for a program to end. Ends it if this process ends, or if it takes or writes too much, as `excess` says. */
async function converse(child: ChildProcess, { input, chunks, said, detached }: Conversation) {
  let length = 0
  let excess: string | undefined
  let grace: NodeJS.Timeout | undefined
  const closed = once(child, 'close') as Promise<[number | null, string | null]>
  let abandon: (ended: [null, null]) => void
  const abandoned = new Promise<[null, null]>((resolve) => {
    abandon = resolve
  })
  const giveUp = () => {
    endProgram(child, { detached, signal: 'SIGKILL' })
    child.unref() // a program of another user continues
    abandon([null, null])
  }
  const end = (why?: string) => {
    excess ??= why
    endProgram(child, { detached, signal: 'SIGTERM' })
    grace ??= setTimeout(giveUp, GRACE_MS)
    child.stdout?.destroy() // a process that it started may hold it open
    child.stderr?.destroy()
  }
  const release = beforeEnd(() => end())
  const timer = setTimeout(end, PATIENCE_MS, `took longer than ${PATIENCE_MS / 1_000} seconds`)
  const take = (into: Buffer[]) => (chunk: Buffer) => {
    into.push(chunk)
    length += chunk.length
    if (length > MOST_BYTES) end(`wrote more than ${MOST_BYTES} bytes`)
  }
  try {
    child.stdout?.on('data', take(chunks))
    child.stderr?.on('data', take(said))
    child.stdin?.on('error', () => undefined) // it ended without reading; its exit code says more
    child.stdin?.end(input)
    const [code, signal] = await Promise.race([closed, abandoned])
    return { code, signal, excess }
  } finally {
    clearTimeout(timer)
    clearTimeout(grace)
    release()
  }
}

function endProgram({ pid }: ChildProcess, { detached, signal }: { detached: boolean; signal: NodeJS.Signals }): void {
  try {
    if (pid !== undefined) process.kill(detached ? -pid : pid, signal)
  } catch (error) {
    // It has ended by itself, or runs as another user.
    if (!['ESRCH', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}
