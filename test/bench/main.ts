// `npm run bench`: runs the parts and says what they found; see docs/performance.md.
import { mkdirSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { findPostgres } from '../support/database/find-postgres.js'
import { type Parts, readArguments } from './arguments.mjs'
import { measureAppend, measureScale } from './audit/audit.js'
import { measureStorage } from './audit/storage.js'
import { describeMachine, formatMachine } from './lib/machine.js'
import { barTable, type Findings, formatTable, isMet, joinFindings, writeResults } from './lib/report.js'
import { takeTurns } from './lib/rounds.js'
import { openStage, type Scene } from './lib/scene.js'
import { plotSvg } from './lib/svg.js'
import { measureChromium } from './sdk/chromium.js'
import { measureFirst } from './sdk/first.js'
import { measureRows } from './sdk/rows/rows.js'
import { measureSdk } from './sdk/sdk.js'
import { measureStreams } from './sdk/streams.js'
import { measureBlind } from './server/blind.js'
import { measureCalls } from './server/calls.js'
import { measureChange } from './server/change.js'
import { measureEmbedded, measureIdle } from './server/embedded.js'
import { measureGrowth } from './server/growth.js'
import { measureLimits } from './server/limits.js'
import { measureNeighbours } from './server/neighbours.js'
import { measurePeer } from './server/peer.js'
import { measureProcesses } from './server/processes.js'
import { profileCalls } from './server/profile.js'
import { measureTenants } from './server/tenants.js'
import { measureVerification } from './server/verification.js'

type Measurements = { [Part in keyof Parts]: Record<Parts[Part], (scene: Scene) => Promise<Findings>> }

const MEASUREMENTS: Measurements = {
  server: {
    calls: measureCalls,
    tenants: measureTenants,
    processes: measureProcesses,
    change: measureChange,
    neighbours: measureNeighbours,
    verification: measureVerification,
    embedded: measureEmbedded,
    idle: measureIdle,
    growth: measureGrowth,
    peer: measurePeer,
    limits: measureLimits,
    blind: measureBlind,
  },
  audit: { append: measureAppend, storage: measureStorage, scale: measureScale },
  sdk: { node: measureSdk, rows: measureRows, streams: measureStreams, first: measureFirst, chromium: measureChromium },
  profile: { profile: profileCalls },
}
const HERE = fileURLToPath(new URL('.', import.meta.url))

const { wanted, options, nodes, svg } = readArguments(process.argv.slice(2)) // bench.mjs has refused wrong ones

const machine = describeMachine(findPostgres(), nodes)
console.log(`${formatMachine(machine)}\noptions: ${JSON.stringify(options)}\n`)
const stage = await openStage(options)
const found: Findings = { bars: [], tables: [], plots: [] }
try {
  for (const name of wanted) {
    const [part = '', only] = name.split('/')
    for (const [measurement, measure] of Object.entries(MEASUREMENTS[part as keyof Measurements])) {
      if (only !== undefined && measurement !== only) continue
      const startedAt = performance.now()
      const on = measurement === 'chromium' ? nodes.slice(0, 1) : nodes // no Node has a part in it
      try {
        const all = await takeTurns(on.map((node) => (turn) => measure(stage.on(node, turn))))
        const findings = joinFindings(
          on.map(({ version }) => version),
          all,
        )
        for (const table of findings.tables) console.log(formatTable(table))
        if (findings.bars.length > 0) console.log(formatTable(barTable(findings.bars)))
        console.log(`${part}/${measurement} took ${Math.round((performance.now() - startedAt) / 1_000)} s\n`)
        found.bars.push(...findings.bars)
        found.tables.push(...findings.tables)
        found.plots.push(...findings.plots)
      } catch (error) {
        console.error(`${part}/${measurement} failed:`, error)
        process.exitCode = 1 // the others are measured all the same
      }
    }
  }
} finally {
  await stage.close()
}

const after = describeMachine(undefined, []).load
const measuredBars = found.bars.map((row) => ({ ...row, met: isMet(row) }))
writeResults(`${HERE}results`, { machine: { ...machine, load_after: after }, options, ...found, bars: measuredBars })
if (svg !== undefined) {
  mkdirSync(svg, { recursive: true })
  for (const plot of found.plots) writeFileSync(`${svg}/${plot.file}.svg`, plotSvg(plot))
}
const withBar = found.bars.filter(({ atLeast, atMost }) => atLeast !== undefined || atMost !== undefined)
console.log(
  `load after: ${after}\n${withBar.filter(isMet).length} of ${withBar.length} bars met; test/bench/results/latest.json`,
)
