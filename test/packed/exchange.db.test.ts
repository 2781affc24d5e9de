// The packed SDK in other runtimes, with a real server and values that the sources made in this Node. In short: in the Node that runs the
// tests, and in what is found on this machine. `npm run test:slow` fetches each runtime, and runs the suite of all runtimes there.
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, it } from 'vitest'
import { DENO, type Exchange, startExchange } from '../support/platforms/exchange.js'
import { installPackedSdk } from '../support/platforms/packed-sdk.js'
import { RUNTIMES } from '../support/sources/runtime-table.js'

const run = promisify(execFile)
const INSTALL_TIMEOUT_MS = 5 * 60_000

const here = [
  ['deno', 'deno@2'],
  ['bun', 'bun@1'],
  ['workerd', 'workerd@1'],
] as const
const isHere = await Promise.all(
  here.map(([command]) =>
    run(command, ['--version']).then(
      () => true,
      () => false,
    ),
  ),
)
const missing = here.filter((_, at) => !isHere[at]).map(([command]) => command)
if (missing.length > 0) {
  console.info(`not on this machine: ${missing.join(', ')}; npm run test:slow exchanges values with them`)
}

describe('with a real server, the packed SDK opens what the sources sealed, and they open what it sealed, in', () => {
  let folder: string
  let exchange: Exchange

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'eaas-exchange-'))
    await installPackedSdk(folder)
    exchange = await startExchange(folder)
  }, INSTALL_TIMEOUT_MS)
  afterAll(async () => {
    await exchange?.end()
    await rm(folder, { recursive: true, force: true })
  })

  it(`Node ${process.versions.node}`, () => exchange.by(RUNTIMES['node@20.19'].engines, process.execPath))

  it.runIf(!missing.includes('deno'))('Deno', () => exchange.by(RUNTIMES['deno@2'].engines, 'deno', DENO))
  it.runIf(!missing.includes('bun'))('Bun', () => exchange.by(RUNTIMES['bun@1'].engines, 'bun'))
  it.runIf(!missing.includes('workerd'))('workerd', () =>
    exchange.inWorkerd(RUNTIMES['workerd@1'].engines, 'workerd', '2026-01-01'),
  )
})
