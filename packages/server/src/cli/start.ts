/** `eaas start`: serves the API until a signal stops it. */
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { explainListening, outliveOutput } from '@eaas/audit/node'
import type { Command } from 'commander'
import type { Config } from '../config.js'
import type { Server } from '../server.js'
import { commandConfig, ENVIRONMENT } from './command.js'
import { failWithoutDatabase } from './fail.js'
import { baseUrl, greet } from './greeting.js'
import { openVerifier } from './open-verifier.js'
import { closeAndExit, onStopSignal } from './stop.js'

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
      return start(commandConfig())
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

// First /health turns callers away while all calls are served, until a balancer must have noticed; then the
// server closes.
function stopOnSignal(server: Server, drainMs: number): void {
  onStopSignal(async (signal) => {
    server.app.log.info({ signal, drain_seconds: drainMs / 1_000 }, 'stopping')
    server.beginStopping()
    if (drainMs > 0) await sleep(drainMs)
    closeAndExit(server)
  })
}
