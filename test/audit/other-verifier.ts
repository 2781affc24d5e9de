// The verifier of exports in another language, test/independent/verify_export.py: one process for all files of a worker's tests.
import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from 'node:child_process'
import { dirname } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'
import { splitLines } from '../../packages/server/src/audit/verify/split-lines.js'
import { type ExportVerdict, verifyExport } from '../../packages/server/src/audit/verify/verify-export.js'
import { PYTHON } from '../support/python.js'

export const VERIFIER = fileURLToPath(new URL('../independent/verify_export.py', import.meta.url))
const DRIVER = `
import base64, io, json, sys
from verify_export import Ed25519PublicKey, verify
if not Ed25519PublicKey:
    sys.exit("the package cryptography is missing")
for line in sys.stdin:
    file, *known = json.loads(line)
    print(json.dumps(verify(io.BytesIO(base64.b64decode(file)), *known)), flush=True)
`
const ARGUMENTS = ['-B', '-c', DRIVER]

export interface VerifierJob {
  file: Uint8Array
  publicKey: string
  checkpoint?: string | undefined
}

/** The verdict on a file that both verifiers give. */
export interface OtherVerdict {
  valid: boolean
  verified_entries: number
  line?: number
  whole?: boolean
  checkpoint_compared?: boolean
  reason?: string
}

let obstacle: { found: string | undefined } | undefined

/** Returns why the other verifier is not available on this machine; undefined if it is. */
export function findObstacleToVerifier(): string | undefined {
  obstacle ??= { found: lookForObstacle() }
  return obstacle.found
}

function lookForObstacle(): string | undefined {
  // As in tamper/attacks.ts: a run in which only the server's own checks may find an attack.
  if (process.env.EAAS_TEST_ONE_VERIFIER === '1') return 'EAAS_TEST_ONE_VERIFIER leaves it out'
  const { error, status, stderr } = spawnSync(PYTHON, ARGUMENTS, { input: '', encoding: 'utf8', env: environment() })
  if (error) return `python3 cannot be started (${(error as NodeJS.ErrnoException).code})`
  return status === 0 ? undefined : stderr.trim().split('\n').at(-1)
}

/** Verifies a file by the server's program and, where it is available, by the other one, which must agree; returns the first verdict. */
export async function verifyByBoth({ file, publicKey, checkpoint }: VerifierJob): Promise<ExportVerdict> {
  const verdict = await verifyExport(splitLines([file]), { publicKey, ...(checkpoint !== undefined && { checkpoint }) })
  if (findObstacleToVerifier()) return verdict
  expect((await verifyElsewhere([{ file, publicKey, checkpoint }])).map(comparable)).toEqual([comparable(verdict)])
  return verdict
}

/** Picks what the two verifiers must agree on. */
export const comparable = ({ valid, verified_entries, line, checkpoint_compared }: Partial<ExportVerdict>) =>
  valid ? { valid, verified_entries, checkpoint_compared } : { valid, verified_entries, line }

interface Verifier {
  child: ChildProcessWithoutNullStreams
  /** who waits for its answers, which come in the order of the files */
  waiting: { resolve(verdict: OtherVerdict): void; reject(error: Error): void }[]
}

let verifier: Verifier | undefined

/** Verifies files in the other language. */
export function verifyElsewhere(jobs: readonly VerifierJob[]): Promise<OtherVerdict[]> {
  verifier ??= startVerifier()
  const { child, waiting } = verifier
  const verify = ({ file, publicKey, checkpoint }: VerifierJob) =>
    new Promise<OtherVerdict>((resolve, reject) => {
      waiting.push({ resolve, reject })
      child.stdin.write(`${JSON.stringify([Buffer.from(file).toString('base64'), publicKey, checkpoint ?? null])}\n`)
    })
  return Promise.all(jobs.map(verify))
}

/** Starts the process, which reads a file a line and answers each with a line. It ends with this process, which closes its input. */
function startVerifier(): Verifier {
  const child = spawn(PYTHON, ARGUMENTS, { env: environment() })
  const waiting: Verifier['waiting'] = []
  let stderr = ''
  createInterface({ input: child.stdout }).on('line', (line) => waiting.shift()?.resolve(JSON.parse(line)))
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
  })
  child.stdin.on('error', () => undefined) // it has ended, which `close` tells
  child.on('close', () => {
    verifier = undefined
    for (const { reject } of waiting) reject(new Error(`the other verifier ended: ${stderr}`))
  })
  return { child, waiting }
}

function environment(): NodeJS.ProcessEnv {
  return { ...process.env, PYTHONPATH: dirname(VERIFIER) }
}
