// Which CPU does what: the process under test has one for itself, the load and the database share the others.
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { dirname, join } from 'node:path'
import { cpuMs, endedChildrenCpuMs } from './process.js'

export interface Pinning {
  /** the CPU of the process under test, as taskset takes it */
  tested: string
  /** the CPUs of everything else */
  others: string
}

/** How processes are pinned, or undefined where they can't be: one CPU only, or no taskset. */
export function findPinning(): Pinning | undefined {
  const count = availableParallelism()
  if (count < 2 || spawnSync('taskset', ['--version']).status !== 0) return undefined
  return { tested: '0', others: count === 2 ? '1' : `1-${count - 1}` }
}

/** The command with taskset in front. */
export function pinned(cpus: string | undefined, command: string[]): [string, ...string[]] {
  const [program = '', ...args] = cpus === undefined ? command : ['taskset', '-c', cpus, ...command]
  return [program, ...args]
}

/** Pins a PostgreSQL that runs, with all its processes; those that it makes later inherit it. */
export function pinPostgres({ logFile }: { logFile: string }, cpus: string | undefined): void {
  if (cpus === undefined) return
  for (const pid of processesOf(logFile)) spawnSync('taskset', ['-cp', cpus, pid])
}

/** CPU time that all processes of a PostgreSQL have used, those that have ended too, in milliseconds. */
export function postgresCpuMs({ logFile }: { logFile: string }): number {
  const [postmaster = '', ...children] = processesOf(logFile)
  const ended = endedChildrenCpuMs(Number(postmaster))
  return children.reduce(
    (sum, pid) => sum + (ifRunning(() => cpuMs(Number(pid))) ?? 0),
    ended + cpuMs(Number(postmaster)),
  )
}

/** undefined if the process that is read has ended meanwhile. */
function ifRunning<Value>(read: () => Value): Value | undefined {
  try {
    return read()
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'ENOENT' || code === 'ESRCH') return undefined
    throw error
  }
}

function processesOf(logFile: string): string[] {
  const [postmaster = ''] = readFileSync(join(dirname(logFile), 'data/postmaster.pid'), 'utf8').split('\n')
  return [postmaster, ...childrenOf(postmaster)]
}

function childrenOf(parent: string): string[] {
  return readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && ifRunning(() => parentOf(pid)) === parent)
}

function parentOf(pid: string): string | undefined {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]
}
