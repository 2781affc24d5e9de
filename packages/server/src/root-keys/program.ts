/** Runs a program that prints the root key, or one that wraps and unwraps, so that the key never leaves its device. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { beforeEnd } from '@eaas/audit/node'
import { readJson } from '@eaas/protocol'
import { ROOT_KEY_VARIABLES } from '../core/config.js'
import { RefusedPinError, RootKeyError, type RootKeyProvider } from '../core/crypto/key-hierarchy.js'

const PATIENCE_MS = 60_000 // since a person may have to touch a token
const GRACE_MS = 2_000 // after SIGTERM
/** The exit code of a program whose PIN was refused. The program is not called again, since the device could lock itself. */
export const PIN_REFUSED = 6
const MOST_BYTES = 65_536 // the longest output

/** Reads words between blanks, or a JSON array of strings, as a program and its arguments. @throws RootKeyError */
export function readCommandLine(text: string, variable: string): [string, ...string[]] {
  const words = text.trimStart().startsWith('[') ? readJson(text) : text.split(/\s+/).filter((word) => word !== '')
  if (!Array.isArray(words) || words.length === 0 || words.some((word) => typeof word !== 'string')) {
    throw new RootKeyError(
      `${variable} must be a program and its arguments between blanks, or a JSON array of strings, such as ["pass", "show", "root key"].`,
    )
  }
  return words as [string, ...string[]]
}

interface ProgramOptions {
  what: string // how messages call it, before its name
  variables?: Readonly<Record<string, string>> // environment variables in addition to ours
  /** show its standard error only if it fails; by default it has ours, so that it can prompt */
  isQuiet?: boolean
  /** detects a refused PIN, by the exit code and, if it is quiet, its standard error */
  isPinRefused?: (code: number | null, said: string) => boolean
}

/** Runs a program, which ends when this process ends. The caller zeroes the returned output. @throws RootKeyError */
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
    // In a process group of its own, all processes that it started end with it. On a terminal it stays in ours, to prompt.
    const detached = !process.stdin.isTTY && !process.stderr.isTTY
    const { EAAS_DATABASE_URL: _, EAAS_ROOT_KEY: __, ...env } = { ...process.env, ...variables } // they are secrets
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

/** The bytes for its standard input, and those from its standard output and error. */
type Conversation = { input: Uint8Array; chunks: Buffer[]; said: Buffer[]; detached: boolean }

/** Waits for a program to end. Ends it when this process ends, or when it takes too long or writes too much (`excess`). */
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
    child.stdout?.destroy() // a process that it started may hold the stream open
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
    child.stdin?.on('error', () => undefined) // it ended without reading; its exit code says why
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
    // The program has already ended, or runs as another user.
    if (!['ESRCH', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
  }
}

const PROGRAM = { what: `The program of ${ROOT_KEY_VARIABLES.exec},` }

/** The program gets `wrap` or `unwrap` as its last argument, and exits with 0, or with 6 if its PIN was refused. */
export function execProvider(commandLine: [string, ...string[]]): RootKeyProvider {
  const ask = async (what: 'wrap' | 'unwrap', bytes: Uint8Array) => {
    const answer = await runProgram([...commandLine, what], bytes, PROGRAM)
    if (answer.length === 0) throw new RootKeyError(`${commandLine[0]} ${what} wrote nothing to its standard output.`)
    return answer
  }
  return {
    kind: 'exec',
    name: commandLine[0],
    async wrap(bytes) {
      const wrapped = await ask('wrap', bytes)
      if (!contains(wrapped, bytes)) return wrapped
      throw new RootKeyError(
        `${commandLine[0]} wrap wrote the bytes that it was given, so the store key would stand in the database as it is. Name a program that encrypts them.`,
      )
    },
    unwrap: (wrapped) => ask('unwrap', wrapped),
  }
}

// Detects a program that echoes its input (`cat`) or only encodes it: raw, hexadecimal or base64, on one or more lines.
function contains(wrapped: Uint8Array, bytes: Uint8Array): boolean {
  const secret = Buffer.from(bytes)
  const written = Buffer.from(wrapped)
  const text = written.toString('latin1').replaceAll(/\s/g, '')
  const base64 = [secret.toString('base64').replace(/=+$/, ''), secret.toString('base64url')]
  const isEncoded = text.toLowerCase().includes(secret.toString('hex')) || base64.some((form) => text.includes(form))
  return written.includes(secret) || isEncoded
}
