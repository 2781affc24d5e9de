// A program as a user starts it, such as an example: run to its end or interrupted, and whether it left anything behind.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, inject, onTestFinished } from 'vitest'
import { copiesInMemoryBelow } from '../support/database/created-cluster.js'

const GONE_WITHIN_MS = 15_000

export interface Program {
  /** What node runs. */
  main: string
  args?: string[]
  environment?: Record<string, string>
  /** A folder for temporary ones, of which each run gets one of its own. */
  folder: string
  /** Whether it has a PGlite in memory, which is then a copy. */
  hasOwnPglite?: boolean
}

export interface Ran {
  code: number | null
  out: string
  err: string
}

/** Runs a program to its end, in a temporary folder of its own, and sees that it left nothing there and no process. */
export async function runProgram(program: Program): Promise<Ran> {
  const temporary = mkdtempSync(join(program.folder, 't-'))
  const { child, out, err } = await startProgram(program, temporary)
  const [code] = await once(child, 'close')
  await expectNothingLeft(temporary, 0)
  return { code: code as number | null, out: out(), err: err() }
}

/** Sends the signal once the program has printed that, and sees that nothing is left. Returns the exit code. */
export async function interruptProgram(program: Program, signal: NodeJS.Signals, at: RegExp): Promise<number | null> {
  const temporary = mkdtempSync(join(program.folder, 't-'))
  const { child, out } = await startProgram(program, temporary)
  while (!at.test(out()) && child.exitCode === null) await sleep(20)
  child.kill(signal)
  const [code] = await once(child, 'close')
  // After SIGKILL the server ends by itself, which takes it a moment.
  await expectNothingLeft(temporary, signal === 'SIGKILL' ? GONE_WITHIN_MS : 0)
  return code as number | null
}

/** The table under "Result". */
export function readResult(out: string): Record<string, string> {
  const table = out.split('\nResult\n\n')[1]?.split('\n\n')[0] ?? ''
  return Object.fromEntries(table.split('\n').map((line) => line.trim().split(/ {3,}/)))
}

/** The caller's own EAAS_* variables stay out, and so does DATABASE_URL. */
async function startProgram(program: Program, temporary: string) {
  const { main, args = [], environment, hasOwnPglite = false } = program
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('EAAS_') && name !== 'DATABASE_URL')
  const child = spawn(process.execPath, [main, ...args], {
    env: {
      ...Object.fromEntries(inherited),
      NODE_OPTIONS: hasOwnPglite ? await copiesInMemoryBelow(inject('runDir')) : '',
      ...environment,
      TMPDIR: temporary,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  let out = ''
  let err = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    out += text
  })
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    err += text
  })
  return { child, out: () => out, err: () => err }
}

async function expectNothingLeft(temporary: string, withinMs: number): Promise<void> {
  const deadline = Date.now() + withinMs
  const left = () => ({ files: readdirSync(temporary), processes: processesWith(temporary) })
  while (Date.now() < deadline && left().files.length + left().processes.length > 0) await sleep(100)
  expect(left()).toEqual({ files: [], processes: [] })
}

/** The processes that have a text in their environment. */
function processesWith(text: string): string[] {
  if (!existsSync('/proc/self/environ')) {
    const all = execFileSync('ps', ['axeww'], { encoding: 'utf8' })
    return all.split('\n').filter((line) => line.includes(text))
  }
  return readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && environmentOf(pid).includes(text))
}

function environmentOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/environ`, 'utf8')
  } catch {
    return '' // it has ended, or is another user's
  }
}
