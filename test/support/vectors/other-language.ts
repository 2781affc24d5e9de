// AES-256-GCM in another language: test/independent/vectors.py in one process of a worker, with OpenSSL behind it.
import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { inject } from 'vitest'
import { concatBytes, lengthPrefixed } from '../../../packages/protocol/src/bytes.js'
import { PYTHON } from './python.js'

const FOLDER = fileURLToPath(new URL('../../independent', import.meta.url))
const MAX_ANSWER_BYTES = 2 ** 30

export interface Job {
  key: Uint8Array
  iv: Uint8Array
  aad: Uint8Array
  /** plaintext to seal, or ciphertext ‖ tag to open */
  text: Uint8Array
}

/** Returns why the other language is not available on this machine; undefined if it is. */
export function findObstacle(): string | undefined {
  const job = { key: new Uint8Array(32), iv: new Uint8Array(12), aad: new Uint8Array(0), text: new Uint8Array(0) }
  const { error, status, stderr } = run('seal', [framesOf(job)])
  if (error) return `python3 cannot be started (${(error as NodeJS.ErrnoException).code})`
  if (status === 0) return undefined
  return `python3 has neither the package cryptography nor OpenSSL 3: ${stderr.toString().trim().split('\n').at(-1)}`
}

/** Seals in the other language: ciphertext ‖ tag of each job. */
export function sealElsewhere(jobs: readonly Job[]): Promise<Uint8Array[]> {
  return answers('seal', jobs.map(framesOf))
}

/** Opens in the other language: each plaintext, or undefined if it does not open. */
export async function openElsewhere(jobs: readonly Job[]): Promise<(Uint8Array | undefined)[]> {
  return (await answers('open', jobs.map(framesOf))).map(openedOf)
}

/** An envelope of format v2 in the other language: what seals it, or opens it. */
export interface BoundJob {
  dek: Uint8Array
  context: Readonly<Record<string, string>>
}

/** Seals to format v2 in the other language. */
export async function sealBoundElsewhere(
  jobs: readonly (BoundJob & { iv: Uint8Array; plaintext: Uint8Array })[],
): Promise<unknown[]> {
  const frames = jobs.map(({ dek, context, iv, plaintext }) => [dek, json(context), iv, plaintext])
  return (await answers('seal-v2', frames)).map((answer) => JSON.parse(new TextDecoder().decode(answer)))
}

/** Opens envelopes of format v2 in the other language: each plaintext, or undefined if it does not open. */
export async function openBoundElsewhere(
  jobs: readonly (BoundJob & { envelope: unknown })[],
): Promise<(Uint8Array | undefined)[]> {
  const frames = jobs.map(({ dek, context, envelope }) => [dek, json(context), json(envelope), new Uint8Array(0)])
  return (await answers('open-v2', frames)).map(openedOf)
}

/** Computes the blind hash of each value in the other language. */
export function blindHashElsewhere(jobs: readonly { hashKey: Uint8Array; value: Uint8Array }[]): Promise<Uint8Array[]> {
  const none = new Uint8Array(0)
  return answers(
    'blind',
    jobs.map(({ hashKey, value }) => [hashKey, value, none, none]),
  )
}

function openedOf(answer: Uint8Array): Uint8Array | undefined {
  return answer[0] === 1 ? answer.subarray(1) : undefined
}

function json(value: unknown): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value))
}

/** Checks that the program writes exactly the committed vectors; returns its exit status and its output. */
export function checkVectors(): { status: number | null; output: string } {
  const { status, stdout, stderr } = run('check', [])
  return { status, output: `${stdout}${stderr}` }
}

function framesOf({ key, iv, aad, text }: Job): Uint8Array[] {
  return [key, iv, aad, text]
}

interface Language {
  child: ChildProcessWithoutNullStreams
  /** the callers that wait for its answers, which come in the order of the questions */
  waiting: { resolve(answer: Uint8Array): void; reject(error: Error): void }[]
}

let language: Language | undefined

async function answers(command: string, jobs: readonly Uint8Array[][]): Promise<Uint8Array[]> {
  language ??= startLanguage()
  const { child, waiting } = language
  const answer = new Promise<Uint8Array>((resolve, reject) => waiting.push({ resolve, reject }))
  child.stdin.write(lengthPrefixed([new TextEncoder().encode(command), framed(jobs)]))
  const found = framesIn(await answer).map((frame) => new Uint8Array(frame))
  if (found.length !== jobs.length) throw new Error(`${found.length} answers to ${jobs.length} jobs`)
  return found
}

/** Starts the process. It ends with this one, which closes its input. */
function startLanguage(): Language {
  const { args, env } = programOf('serve')
  const child = spawn(PYTHON, args, { env })
  const waiting: Language['waiting'] = []
  let [received, missing, stderr] = [[] as Buffer[], 0, '']
  child.stdout.on('data', (bytes: Buffer) => {
    received.push(bytes)
    missing -= bytes.length
    if (missing > 0) return
    let rest = Buffer.concat(received)
    while (rest.length >= 4 && rest.length >= 4 + rest.readUInt32BE(0)) {
      const end = 4 + rest.readUInt32BE(0)
      waiting.shift()?.resolve(rest.subarray(4, end))
      rest = rest.subarray(end)
    }
    received = [rest]
    missing = rest.length >= 4 ? 4 + rest.readUInt32BE(0) - rest.length : 0
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  child.stdin.on('error', () => undefined) // it has ended, which `close` reports
  child.on('close', () => {
    language = undefined
    for (const { reject } of waiting) reject(new Error(`the other language failed: ${stderr}`))
  })
  return { child, waiting }
}

function framesIn(bytes: Uint8Array): Uint8Array[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const found: Uint8Array[] = []
  for (let at = 0; at < bytes.length; ) {
    const length = view.getUint32(at)
    found.push(bytes.subarray(at + 4, at + 4 + length))
    at += 4 + length
  }
  return found
}

function run(command: string, jobs: readonly Uint8Array[][]) {
  const { args, env } = programOf(command)
  return spawnSync(PYTHON, args, { input: framed(jobs), env, maxBuffer: MAX_ANSWER_BYTES })
}

function framed(jobs: readonly Uint8Array[][]): Uint8Array {
  return concatBytes(...jobs.map((frames) => lengthPrefixed(frames)))
}

function programOf(command: string): { args: string[]; env: NodeJS.ProcessEnv } {
  // As a module, because Python caches compiled code only for modules; compiling takes half of the time of a start.
  const args = ['-X', `pycache_prefix=${join(inject('runDir'), 'python')}`, '-m', 'vectors', command]
  return { args, env: { ...process.env, PYTHONPATH: FOLDER, PYTHONDONTWRITEBYTECODE: '' } }
}
