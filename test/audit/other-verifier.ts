// The verifier of exports in another language, test/independent/verify_export.py: many files in one process of its own.
import { spawnSync } from 'node:child_process'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'
import { splitLines } from '../../packages/server/src/audit/verify/split-lines.js'
import { type ExportVerdict, verifyExport } from '../../packages/server/src/audit/verify/verify-export.js'
import { PYTHON } from '../support/python.js'

export const VERIFIER = fileURLToPath(new URL('../independent/verify_export.py', import.meta.url))
const MAX_ANSWER_BYTES = 2 ** 28
const DRIVER = `
import base64, io, json, sys
from verify_export import Ed25519PublicKey, verify
if not Ed25519PublicKey:
    sys.exit("the package cryptography is missing")
for line in sys.stdin:
    file, *known = json.loads(line)
    print(json.dumps(verify(io.BytesIO(base64.b64decode(file)), *known)))
`

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
  const { error, status, stderr } = run([])
  if (error) return `python3 cannot be started (${(error as NodeJS.ErrnoException).code})`
  return status === 0 ? undefined : stderr.trim().split('\n').at(-1)
}

/** Verifies a file by the server's program and, where it is available, by the other one, which must agree; returns the first verdict. */
export async function verifyByBoth({ file, publicKey, checkpoint }: VerifierJob): Promise<ExportVerdict> {
  const verdict = await verifyExport(splitLines([file]), { publicKey, ...(checkpoint !== undefined && { checkpoint }) })
  if (findObstacleToVerifier()) return verdict
  expect(verifyElsewhere([{ file, publicKey, checkpoint }]).map(comparable)).toEqual([comparable(verdict)])
  return verdict
}

/** Picks what the two verifiers must agree on. */
export const comparable = ({ valid, verified_entries, line, checkpoint_compared }: Partial<ExportVerdict>) =>
  valid ? { valid, verified_entries, checkpoint_compared } : { valid, verified_entries, line }

/** Verifies files in the other language. */
export function verifyElsewhere(jobs: readonly VerifierJob[]): OtherVerdict[] {
  const { status, stdout, stderr } = run(jobs)
  if (status !== 0) throw new Error(`the other verifier failed: ${stderr}`)
  const verdicts = stdout.split('\n').slice(0, -1)
  if (verdicts.length !== jobs.length) throw new Error(`${verdicts.length} answers to ${jobs.length} files`)
  return verdicts.map((verdict) => JSON.parse(verdict) as OtherVerdict)
}

function run(jobs: readonly VerifierJob[]) {
  const lines = jobs.map(({ file, publicKey, checkpoint = null }) =>
    JSON.stringify([Buffer.from(file).toString('base64'), publicKey, checkpoint]),
  )
  return spawnSync(PYTHON, ['-B', '-c', DRIVER], {
    input: lines.map((line) => `${line}\n`).join(''),
    encoding: 'utf8',
    env: { ...process.env, PYTHONPATH: dirname(VERIFIER) },
    maxBuffer: MAX_ANSWER_BYTES,
  })
}
