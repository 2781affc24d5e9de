/** `eaas start`: serves the API until a signal stops it. `eaas dev` uses it as well. */
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, linkSync, lstatSync, renameSync, rmSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { answers, explainListening, ListenError, listenOn, outliveOutput } from '@eaas/audit/node'
import type { Command } from 'commander'
import { createVerificationThread, type ThreadDatabase } from '../../core/audit/verify/verify.js'
import { type Config, getPort, readConfig } from '../../core/config.js'
import { hasEmbeddedDatabase } from '../../embedded/database.js'
import { openBlindHasher } from '../../installation.js'
import type { Server } from '../../server.js'
import { commandConfig, ENVIRONMENT } from './command.js'
import { failWithoutDatabase } from './fail.js'
import { baseUrl, greet } from './greeting.js'
import { print } from './output.js'
import { closeAndExit, createNotifier, onSignals } from './supervision.js'

const VARIABLES = { host: 'EAAS_HOST', port: 'EAAS_PORT' } // the settings of the address, for errors

/** The build puts the program of the thread that verifies logs beside the command's. */
const openVerifier = (database: ThreadDatabase) =>
  createVerificationThread(database, new URL('./verification-thread-program.js', import.meta.url))

export function addStart(program: Command): void {
  program
    .command('start')
    .description('Serve the API; on the embedded database unless a URL of PostgreSQL is set.')
    .addHelpText('after', ENVIRONMENT)
    .action(() => {
      outliveOutput()
      const config = commandConfig()
      return serve(config, (server, url) => greet(server, config, url))
    })
}

/** Starts the server; returns after it listens and `say` has run. */
export async function serve(config: Config, say: (server: Server, url: string) => Promise<void>): Promise<void> {
  // At a start, calls wait while their tenants are loaded, so their objects live long. V8 would then allocate the objects
  // of all later calls in the old generation, which keeps them, with their requests, until a full garbage collection.
  setFlagsFromString('--no-allocation-site-pretenuring')
  if (!config.socket) await assertListenable(config)
  // Imported here, because loading the HTTP server takes any other command longer than its own work.
  const { openServer } = await import('../../server.js')
  const { dataDir } = config
  const server = await openServer({
    ...{ config, openVerifier, openBlindHasher, onDatabaseFailure: failWithoutDatabase },
    onOpening: () => print(`${hasEmbeddedDatabase(dataDir) ? 'Opening the' : 'Creating a'} database in ${dataDir}`),
  })
  const { app } = server
  const notifier = createNotifier(config.serviceManager, app.log)
  try {
    const url = await listen(server, config)
    obeySignals(server, { drainMs: config.drainSeconds * 1_000, onStop: notifier.stopping })
    notifier.ready()
    await say(server, url)
  } catch (error) {
    await app.close()
    throw error
  }
}

/** Listens for a moment, so that no database is created for a server that cannot listen. @throws ListenError */
async function assertListenable({ host, ...config }: Config): Promise<void> {
  const probe = createServer()
  await listenOn(probe, { host, port: getPort(config) }, VARIABLES)
  await once(probe.close(), 'close')
}

async function listen({ app }: Server, { host, socket, tls, ...config }: Config): Promise<string> {
  const listenTextResolver = () => 'listening'
  if (socket) {
    await claimSocketFile(socket.path)
    await app.listen({ path: socket.path, listenTextResolver })
    chmodSync(socket.path, socket.mode) // on Linux, users who may write to the file may connect
    return `unix:${socket.path}`
  }
  const port = getPort(config)
  await app.listen({ host, port, listenTextResolver }).catch((error: unknown) => {
    throw explainListening(error, { host, port }, VARIABLES)
  })
  return baseUrl(host, (app.server.address() as AddressInfo).port, { isTls: tls !== undefined })
}

// Before the server closes, /health fails for long enough that a load balancer notices, while calls are still served.
function obeySignals(server: Server, { drainMs, onStop }: { drainMs: number; onStop: () => void }): void {
  onSignals({
    reload: () => server.reload(() => readConfig(process.env)),
    async stop(signal) {
      onStop()
      server.app.log.info({ signal, drain_seconds: drainMs / 1_000 }, 'stopping')
      server.beginStopping()
      if (drainMs > 0) await sleep(drainMs)
      closeAndExit(server)
    },
  })
}

/** Removes the socket of a killed process. @throws ListenError if a process listens there, or it is not a socket */
export async function claimSocketFile(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (!found) return
  if (!found.isSocket())
    throw new ListenError(`Cannot listen on ${path}: it is no socket. Remove it, or set EAAS_SOCKET to another path.`)
  if (await isTaken(path)) throw inUse(path)
  // Moves the file aside first, since another process may claim the path at the same time, and already listen.
  const aside = `${path}.${randomBytes(8).toString('hex')}`
  renameSync(path, aside)
  if (await isTaken(aside)) {
    linkSync(aside, path)
    rmSync(aside)
    throw inUse(path)
  }
  rmSync(aside)
}

function inUse(path: string): ListenError {
  return new ListenError(
    `Cannot listen on ${path}: another process listens there. Stop it, or set EAAS_SOCKET to another path.`,
  )
}

// On any error but a refused connection, such as a missing permission, a process may be listening.
function isTaken(path: string): Promise<boolean> {
  return answers(path).catch(() => true)
}
