/** `eaas start`: serves the API until a signal stops it. */
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Command } from 'commander'
import type { FastifyInstance } from 'fastify'
import type { Config } from '../config.js'
import type { Installation } from '../installation.js'
import { outliveOutput } from '../logger.js'
import { createTenant, type NewTenant } from '../operations/create-tenant.js'
import type { Server } from '../server.js'
import { lockInstance } from '../store/instance.js'
import { hasTenants } from '../store/tenants.js'
import { commandConfig, ENVIRONMENT } from './command.js'
import { explainListening } from './listen.js'
import { isStandardOutput } from './output.js'

const STOP_SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
const FIRST_TENANT = 'default'
/** How long calls under way may take to finish before the process ends nevertheless, in milliseconds. */
const STOP_DEADLINE_MS = 10_000
/** How long the database may then take to close: otherwise the embedded one would leave its socket and lock behind. */
const CLOSE_DEADLINE_MS = 3_000

/** Adds `eaas start`. */
export function addStart(program: Command): void {
  program
    .command('start')
    .description('Serve the API; on the embedded database unless EAAS_DATABASE_URL is set.')
    .addHelpText('after', ENVIRONMENT)
    .action(() => start(commandConfig()))
}

/** Starts the server; returns once it listens. */
async function start(config: Config): Promise<void> {
  outliveOutput()
  // Imported here, so that no other command loads the HTTP server, which takes it longer than its own work.
  const { openServer } = await import('../server.js')
  const server = await openServer({ config })
  const { app, installation, emitCheckpoints } = server
  try {
    await listen(app, config)
    stopOnSignal(server, config.drainSeconds * 1_000)
    const url = baseUrl(app, config)
    const tenant = isStandardOutput(config.journalStream) ? undefined : await createFirstTenant(installation)
    process.stdout.write(`EaaS is listening on ${url}\nDatabase: ${installation.database}\n`)
    if (!tenant && !(await hasTenants(installation.services.sql))) process.stdout.write(NO_TENANT)
    if (tenant) {
      process.stdout.write(welcome(tenant, url))
      emitCheckpoints().catch((error: unknown) => app.log.error({ err: error }, 'writing checkpoints failed'))
    }
  } catch (error) {
    await app.close()
    throw error
  }
}

async function listen(app: FastifyInstance, { host, port }: Config): Promise<void> {
  try {
    await app.listen({ host, port, listenTextResolver: () => 'listening' })
  } catch (error) {
    throw explainListening(error, { host, port }, { host: 'EAAS_HOST', port: 'EAAS_PORT' })
  }
}

// Two servers that start together on a new database take turns on the installation's row; the second finds the tenant.
async function createFirstTenant({ services }: Installation): Promise<NewTenant | undefined> {
  if (await hasTenants(services.sql)) return undefined
  return services.sql.begin(async (sql) => {
    await lockInstance(sql)
    return (await hasTenants(sql))
      ? undefined
      : createTenant(services, sql, { name: FIRST_TENANT, envelope_only: true })
  })
}

function welcome({ name, api_key }: NewTenant, url: string): string {
  return `
This is the first start. Tenant "${name}" was created. Its API key, which is shown only once:

  ${api_key.secret}

Save it in a file that only you can read. To use it: npm install @eaas/sdk, and follow its README.
The API is described at ${url}/docs

`
}

// A journal keeps what it is given, and others may read it.
const NO_TENANT = `
There is no tenant yet. The journal would keep its API key, so create the first one beside this server:

  umask 077; eaas tenant create --name main > first-key

`

function baseUrl(app: FastifyInstance, { host }: Config): string {
  const { port } = app.server.address() as AddressInfo
  const name = { '0.0.0.0': '127.0.0.1', '::': '[::1]' }[host] ?? (host.includes(':') ? `[${host}]` : host)
  return `http://${name}:${port}`
}

// First /health turns callers away while all calls are served, until a balancer must have noticed; then the server closes.
function stopOnSignal({ app, installation, beginStopping }: Server, drainMs: number): void {
  const stop = async (signal: NodeJS.Signals) => {
    for (const name of STOP_SIGNALS) process.off(name, stop) // a second signal ends the process at once
    app.log.info({ signal, drain_seconds: drainMs / 1_000 }, 'stopping')
    beginStopping()
    if (drainMs > 0) await sleep(drainMs)
    setTimeout(() => leave(app, installation), STOP_DEADLINE_MS).unref()
    app.close().then(
      () => process.exit(), // connections that are still open do not delay the exit
      (error: unknown) => {
        app.log.error({ err: error }, 'stopping failed')
        process.exitCode = 1
      },
    )
  }
  for (const name of STOP_SIGNALS) process.on(name, stop)
}

async function leave(app: FastifyInstance, installation: Installation): Promise<never> {
  app.log.error('did not stop in time')
  await Promise.race([installation.close(), sleep(CLOSE_DEADLINE_MS)]).catch(() => undefined)
  process.exit(1)
}
