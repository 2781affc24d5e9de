/** Runs a program that an operator named, for the providers `command` and `exec`. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { RootKeyError } from '../crypto/root-key.js'

/** How long a program may take, in milliseconds: somebody may have to touch a token. */
const PATIENCE_MS = 60_000
/** What a program may answer with, in bytes. */
const MOST_BYTES = 65_536

/**
 * Reads a program and its arguments: words between blanks, or a JSON array of strings, for arguments with
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

function readJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export interface ProgramOptions {
  /** variables beside ours */
  variables?: Readonly<Record<string, string>>
  /** whether its standard error is shown only if it fails; by default it is ours, so that it can ask for something */
  isQuiet?: boolean
}

/**
 * Gives a program its standard input, and returns what it wrote to its standard output, which the caller
 * zeroes.
 *
 * @throws RootKeyError if it cannot be started, fails, or takes too long
 */
export async function runProgram(
  [program, ...args]: [string, ...string[]],
  input: Uint8Array,
  { variables = {}, isQuiet = false }: ProgramOptions = {},
): Promise<Buffer> {
  const chunks: Buffer[] = []
  const said: Buffer[] = []
  let length = 0
  const fail = (what: string) => {
    for (const chunk of said) process.stderr.write(chunk)
    return new RootKeyError(`${program}, which the root key is asked from, ${what}.`)
  }
  try {
    const env = { ...process.env, ...variables }
    const child = spawn(program, args, {
      env,
      stdio: ['pipe', 'pipe', isQuiet ? 'pipe' : 'inherit'],
      timeout: PATIENCE_MS,
    })
    const take = (into: Buffer[]) => (chunk: Buffer) => {
      into.push(chunk)
      length += chunk.length
      if (length > MOST_BYTES) child.kill()
    }
    child.stdout?.on('data', take(chunks))
    child.stderr?.on('data', take(said))
    child.stdin?.on('error', () => undefined) // it ended without reading; its exit code says more
    child.stdin?.end(input)
    const [code, signal] = (await once(child, 'close')) as [number | null, string | null]
    if (length > MOST_BYTES) throw fail(`wrote more than ${MOST_BYTES} bytes`)
    if (signal !== null) throw fail(`was ended by ${signal}; it may take ${PATIENCE_MS / 1_000} seconds`)
    if (code !== 0) throw fail(`ended with exit code ${code}. It may have printed why`)
    return Buffer.concat(chunks)
  } catch (error) {
    if (error instanceof RootKeyError) throw error
    throw fail(`cannot be started (${(error as NodeJS.ErrnoException).code})`)
  } finally {
    for (const chunk of chunks) chunk.fill(0)
  }
}
