// The verifier of exports in another language, test/independent/verify_export.py: one process for all files of a worker's tests.
import { type ChildProcessWithoutNullStreams, spawn, spawnSync } from 'node:child_process'
import { dirname } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { expect } from 'vitest'
import { splitLines } from '../../../packages/audit/src/verify/split-lines.js'
import { type ExportVerdict, verifyExport } from '../../../packages/audit/src/verify/verify-export.js'
import { PYTHON } from '../../support/vectors/python.js'

export const VERIFIER = fileURLToPath(new URL('../../independent/verify_export.py', import.meta.url))
const DRIVER = `
import base64, contextlib, io, json, runpy, sys
from verify_export import Ed25519PublicKey, verify
def run(program, args):
    out, err, code = io.StringIO(), io.StringIO(), 0
    sys.argv = [program, *args]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            runpy.run_path(program, run_name="__main__")
        except SystemExit as end:
            code = end.code
    return {"status": code, "stdout": out.getvalue(), "stderr": err.getvalue()}
if not Ed25519PublicKey:
    sys.exit("the package cryptography is missing")
for line in sys.stdin:
    job = json.loads(line)
    if isinstance(job, dict):
        answer = run(**job)
    else:
        file, *known = job
        answer = verify(io.BytesIO(base64.b64decode(file)), *known)
    print(json.dumps(answer), flush=True)
`
const ARGUMENTS = ['-B', '-c', DRIVER]

export interface VerifierJob {
  file: Uint8Array
  publicKey: string
  checkpoint?: string | undefined
  checkpoints?: readonly string[] | undefined
  tree?: string | undefined
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
  /** who waits for its answers, which come in the order of the jobs */
  waiting: { resolve(answer: unknown): void; reject(error: Error): void }[]
}

let verifier: Verifier | undefined

/** Verifies files in the other language. */
export function verifyElsewhere(jobs: readonly VerifierJob[]): Promise<OtherVerdict[]> {
  const verify = ({ file, publicKey, checkpoint, checkpoints, tree }: VerifierJob) =>
    ask([
      Buffer.from(file).toString('base64'),
      ...[publicKey, checkpoint ?? null, checkpoints ?? null, null, tree ?? null],
    ])
  return Promise.all(jobs.map((job) => verify(job) as Promise<OtherVerdict>))
}

/** Runs the other verifier's program with a command line, without a process for it alone. */
export function runOtherVerifier(
  args: readonly string[],
): Promise<{ status: number | null; stdout: string; stderr: string }> {
  return ask({ program: VERIFIER, args }) as ReturnType<typeof runOtherVerifier>
}

function ask(job: unknown): Promise<unknown> {
  verifier ??= startVerifier()
  const { child, waiting } = verifier
  return new Promise((resolve, reject) => {
    waiting.push({ resolve, reject })
    child.stdin.write(`${JSON.stringify(job)}\n`)
  })
}

/** Starts the process, which reads a job a line and answers each with a line. It ends with this process, which closes its input. */
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
