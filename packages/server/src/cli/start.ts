/** `eaas start`: serves the API until a signal stops it. */
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Command } from 'commander'
import type { Config } from '../config.js'
import { logWithoutApp, outliveOutput } from '../logger.js'
import type { Server } from '../server.js'
import type { Primary } from '../workers/primary.js'
import { WorkerEndedError } from '../workers/worker-ended.js'
import { commandConfig, ENVIRONMENT } from './command.js'
import { failWithoutDatabase } from './fail.js'
import { baseUrl, greet } from './greeting.js'
import { explainListening } from './listen.js'
import { openVerifier } from './open-verifier.js'
import { CLOSED_MS, closeAndExit, onStopSignal } from './stop.js'

/** What names the address in an error. */
const VARIABLES = { host: 'EAAS_HOST', port: 'EAAS_PORT' }

/** Adds `eaas start`. */
export function addStart(program: Command): void {
  program
    .command('start')
    .description('Serve the API; on the embedded database unless EAAS_DATABASE_URL is set.')
    .addHelpText('after', ENVIRONMENT)
    .action(() => {
      outliveOutput()
      const config = commandConfig()
      return config.workers > 1 ? startWorkers(config) : start(config)
    })
}

/** Starts the server; returns once it listens. */
async function start(config: Config): Promise<void> {
  // Imported here, so that no other command loads the HTTP server, which takes it longer than its own work.
  const { openServer } = await import('../server.js')
  const server = await openServer({ config, openVerifier, onDatabaseFailure: failWithoutDatabase })
  const { app } = server
  try {
    await app
      .listen({ host: config.host, port: config.port, listenTextResolver: () => 'listening' })
      .catch((error: unknown) => {
        throw explainListening(error, config, VARIABLES)
      })
    stopOnSignal(server, config.drainSeconds * 1_000)
    await greet(server, config, baseUrl(config.host, (app.server.address() as AddressInfo).port))
  } catch (error) {
    await app.close()
    throw error
  }
}

// First /health turns callers away while all calls are served, until a balancer must have noticed; then the server closes.
function stopOnSignal(server: Server, drainMs: number): void {
  onStopSignal(async (signal) => {
    server.app.log.info({ signal, drain_seconds: drainMs / 1_000 }, 'stopping')
    server.beginStopping()
    if (drainMs > 0) await sleep(drainMs)
    closeAndExit(server)
  })
}

/** Starts the server's workers; returns once they serve. This process opens neither the database nor the root key. */
async function startWorkers(config: Config): Promise<void> {
  const { startPrimary } = await import('../workers/primary.js')
  const [, program = ''] = process.argv
  const commandOf = (number: number) => [program, 'worker', String(number)] as const
  let stopping: Promise<void> | undefined
  const onGiveUp = () => {
    if (started) stopping ??= stopWorkers(started, config)
  }
  let started: Primary | undefined
  try {
    const primary = await startPrimary(config, { commandOf, onGiveUp }).catch((error: unknown) => {
      throw explainListening(error, config, VARIABLES)
    })
    started = primary
    onStopSignal((signal) => {
      logWithoutApp(config.logLevel, 'info', { signal, drain_seconds: config.drainSeconds }, 'stopping')
      stopping ??= stopWorkers(primary, config)
    })
    await primary.greet(baseUrl(config.host, primary.address.port))
  } catch (error) {
    if (stopping) return stopping
    if (!(error instanceof WorkerEndedError)) throw error
    // A worker that ended with a code has said why.
    if (error.code === null) process.stderr.write(`eaas: ${error.message}\n`)
    process.exit(error.code || 1)
  }
}

async function stopWorkers(primary: Primary, { logLevel, drainSeconds }: Config): Promise<never> {
  const drainMs = drainSeconds * 1_000
  setTimeout(() => {
    logWithoutApp(logLevel, 'error', {}, 'the workers did not stop in time')
    primary.kill()
  }, drainMs + CLOSED_MS).unref()
  process.exit(await primary.stop(drainMs))
}
