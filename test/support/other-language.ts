// AES-256-GCM in another language: test/independent/vectors.py in a process of its own, with OpenSSL behind it.
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { inject } from 'vitest'
import { concatBytes, lengthPrefixed } from '../../packages/protocol/src/bytes.js'
import { PYTHON } from './python.js'

const FOLDER = fileURLToPath(new URL('../independent', import.meta.url))
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
export function sealElsewhere(jobs: readonly Job[]): Uint8Array[] {
  return answers('seal', jobs.map(framesOf))
}

/** Opens in the other language: each plaintext, or undefined if it does not open. */
export function openElsewhere(jobs: readonly Job[]): (Uint8Array | undefined)[] {
  return answers('open', jobs.map(framesOf)).map((answer) => (answer[0] === 1 ? answer.subarray(1) : undefined))
}

/** An envelope of format v2 in the other language: what seals it, or opens it. */
export interface BoundJob {
  dek: Uint8Array
  context: Readonly<Record<string, string>>
}

/** Seals to format v2 in the other language. */
export function sealBoundElsewhere(jobs: readonly (BoundJob & { iv: Uint8Array; plaintext: Uint8Array })[]): unknown[] {
  const frames = jobs.map(({ dek, context, iv, plaintext }) => [dek, json(context), iv, plaintext])
  return answers('seal-v2', frames).map((answer) => JSON.parse(new TextDecoder().decode(answer)))
}

/** Opens envelopes of format v2 in the other language: each plaintext, or undefined if it does not open. */
export function openBoundElsewhere(jobs: readonly (BoundJob & { envelope: unknown })[]): (Uint8Array | undefined)[] {
  const frames = jobs.map(({ dek, context, envelope }) => [dek, json(context), json(envelope), new Uint8Array(0)])
  return answers('open-v2', frames).map((answer) => (answer[0] === 1 ? answer.subarray(1) : undefined))
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

function answers(command: string, jobs: readonly Uint8Array[][]): Uint8Array[] {
  const { status, stdout, stderr } = run(command, jobs)
  if (status !== 0) throw new Error(`the other language failed: ${stderr}`)
  const view = new DataView(stdout.buffer, stdout.byteOffset, stdout.byteLength)
  const found: Uint8Array[] = []
  for (let at = 0; at < stdout.length; ) {
    const length = view.getUint32(at)
    found.push(new Uint8Array(stdout.subarray(at + 4, at + 4 + length)))
    at += 4 + length
  }
  if (found.length !== jobs.length) throw new Error(`${found.length} answers to ${jobs.length} jobs`)
  return found
}

function run(command: string, jobs: readonly Uint8Array[][]) {
  const input = concatBytes(...jobs.map((frames) => lengthPrefixed(...frames)))
  // As a module, because Python keeps what it compiled of a module only; the compiler takes half of the time of a start.
  const args = ['-X', `pycache_prefix=${join(inject('runDir'), 'python')}`, '-m', 'vectors', command]
  const env = { ...process.env, PYTHONPATH: FOLDER, PYTHONDONTWRITEBYTECODE: '' }
  return spawnSync(PYTHON, args, { input, env, maxBuffer: MAX_ANSWER_BYTES })
}
