/** Runs a command line of `eaas-cli` in this process. */
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { Readable, Writable } from 'node:stream'
import { createClient } from '@eaas/sdk'
import { createTestService } from '@eaas/sdk/testing'
import { afterAll, beforeEach } from 'vitest'
import { guardedDir } from '../../../../test/support/run/guarded-dir.js'
import type { Io } from '../io.js'
import { run } from '../run.js'

export type Ran = { code: number; out: Buffer; err: string }

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

/** A folder for the tests around this call. Each of them finds it empty. */
export function useFolder(name: string): string {
  const { path, remove } = guardedDir(name)
  beforeEach(() => {
    for (const entry of readdirSync(path)) rmSync(join(path, entry), { recursive: true })
  })
  afterAll(remove)
  return path
}

/** The same with a service in memory, a new one for each test, which has the key `files`; and commands that call it. */
export function useFiles(name: string) {
  const folder = useFolder(name)
  const files = {
    folder,
    service: createTestService(),
    keyId: '',
    command: (argv: readonly string[], more: Partial<CommandOptions> = {}) => {
      const { baseUrl, apiKey, fetch } = files.service
      return runCommand(argv, { env: { EAAS_URL: baseUrl, EAAS_API_KEY: apiKey }, folder, fetch, ...more })
    },
  }
  beforeEach(async () => {
    files.service = createTestService()
    const eaas = createClient(files.service)
    files.keyId = (await eaas.keys.create({ name: 'files' })).id
    eaas.close()
  })
  return files
}
