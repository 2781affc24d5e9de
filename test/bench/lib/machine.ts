// What the figures were measured on: figures without it say nothing.
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { availableParallelism, cpus, loadavg, release, totalmem } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Node } from '../arguments.mjs'
import { findPinning } from './cpus.js'
import { LOADER } from './load.js'

const ROOT = fileURLToPath(new URL('../../../', import.meta.url))

export interface Machine {
  date: string
  cpu: string
  cpus: number
  memory: string
  system: string
  node: string
  openssl: string
  postgres: string
  load: string
  loader: string
  pinning: string
  commit: string
  versions: Record<string, string>
}

export function describeMachine(postgresBin: string | undefined, nodes: readonly Node[]): Machine {
  const pinning = findPinning()
  return {
    date: new Date().toISOString().slice(0, 10),
    cpu: cpus()[0]?.model ?? 'unknown',
    cpus: availableParallelism(),
    memory: `${Math.round(totalmem() / 2 ** 30)} GiB`,
    system: `${process.platform} ${release()} ${process.arch}`,
    node: nodes.map(({ version }) => version).join(', '),
    openssl: nodes.map(({ openssl }) => openssl).join(', '),
    postgres: postgresBin === undefined ? 'none' : said(join(postgresBin, 'postgres'), ['--version']),
    load: loadavg()
      .map((load) => load.toFixed(1))
      .join(' '),
    loader: LOADER,
    pinning: pinning
      ? `process under test on CPU ${pinning.tested}, load and database on CPU ${pinning.others}`
      : 'none (one CPU, or no taskset)',
    commit: said('git', ['-C', ROOT, 'describe', '--always', '--dirty']),
    versions: versionsOf([
      'fastify',
      '@electric-sql/pglite',
      '@47ng/cloak',
      'ciphersweet-js',
      '@aws-crypto/client-node',
      'jose',
    ]),
  }
}

function versionsOf(names: readonly string[]): Record<string, string> {
  const versions = names.map((name) => {
    for (const folder of ['node_modules', 'test/bench/node_modules']) {
      try {
        return [name, JSON.parse(readFileSync(join(ROOT, folder, name, 'package.json'), 'utf8')).version]
      } catch {
        // not there: perhaps in the other one
      }
    }
    return [name, 'none']
  })
  return Object.fromEntries(versions)
}

function said(program: string, args: string[]): string {
  try {
    return execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  } catch {
    return 'unknown'
  }
}

export function formatMachine({ versions, ...machine }: Machine): string {
  const lines = Object.entries(machine).map(([name, value]) => `${name}: ${value}`)
  const packages = Object.entries(versions).map(([name, version]) => `${name} ${version}`)
  return [...lines, `packages: ${packages.join(', ')}`].join('\n')
}
