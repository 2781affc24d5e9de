/** Runs a command line of `eaas-cli` in this process. */
import { Readable, Writable } from 'node:stream'
import type { Io } from '../io.js'
import { run } from '../run.js'

export interface Ran {
  code: number
  out: Buffer
  err: string
}

export type CommandOptions = Pick<Io, 'env' | 'folder'> &
  Partial<Pick<Io, 'fetch' | 'signal' | 'stdout'>> & {
    /** What it reads from standard input; a terminal without it. */
    input?: string | Uint8Array | Readable | undefined
    /** Whether standard input is a terminal that types the input. */
    isTyped?: boolean | undefined
    /** Makes standard error a terminal. Called with all that is written on it. */
    onTerminal?: ((text: string) => void) | undefined
  }

export async function runCommand(argv: readonly string[], options: CommandOptions): Promise<Ran> {
  const { input, isTyped, onTerminal, ...io } = options
  const out: Buffer[] = []
  const err: Buffer[] = []
  const into = (chunks: Buffer[], heard?: (text: string) => void) =>
    new Writable({
      write(chunk, _, done) {
        chunks.push(Buffer.from(chunk))
        heard?.(String(chunk))
        done()
      },
    })
  const stdin = input instanceof Readable ? input : Readable.from(input === undefined ? [] : [Buffer.from(input)])
  const code = await run(argv, {
    stdin: Object.assign(stdin, { isTTY: isTyped ?? input === undefined }),
    stdout: into(out),
    stderr: Object.assign(into(err, onTerminal), { isTTY: onTerminal !== undefined }),
    signal: new AbortController().signal,
    ...io,
  })
  return { code, out: Buffer.concat(out), err: Buffer.concat(err).toString() }
}
