/** What `eaas start` prints when it listens, and the tenant of a first start. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Config } from '../../core/config.js'
import { findFailure } from '../../core/runner/refusal.js'
import { hasTenants } from '../../core/store/tenants.js'
import { isNotConnected, RETRY_MS } from '../../core/store/unreachable.js'
import { createFirstTenant, type NewTenant } from '../../operators/tenants.js'
import type { Server } from '../../server.js'
import { isStandardOutput } from './output.js'

export const FIRST_TENANT = 'default'

/** Prints the address of the server and, at the first start, the API key of a new tenant, unless a log would store it. */
export async function greet(
  { app, installation, emitCheckpoints }: Pick<Server, 'app' | 'installation' | 'emitCheckpoints'>,
  { journalStream }: Pick<Config, 'journalStream'>,
  url: string,
): Promise<void> {
  process.stdout.write(
    `EaaS is listening on ${url}\n${url.startsWith('http:') && !isLocal(url) ? OPEN : ''}Database: ${installation.database}\n`,
  )
  const { services } = installation
  // First checks without the lock, for which every start would otherwise wait.
  if (await untilAnswered(app, () => hasTenants(services.sql))) return
  if (isKept(journalStream)) {
    process.stdout.write(NO_TENANT)
    return
  }
  let mayBeCreated = false
  const create = () =>
    createFirstTenant(services, { name: FIRST_TENANT, envelope_only: true }).catch((error: unknown) => {
      mayBeCreated ||= !isNotConnected(error)
      throw error
    })
  const tenant = await untilAnswered(app, create)
  if (!tenant) {
    if (mayBeCreated) process.stderr.write(LOST)
    return
  }
  process.stdout.write(welcome(tenant, url), (error) => {
    if (error) process.stderr.write(LOST)
  })
  emitCheckpoints().catch((error: unknown) => app.log.error({ err: error }, 'writing checkpoints failed'))
}

/** The URL of the address to which a server is bound; an address for all interfaces stays as it is. */
export function baseUrl(host: string, port: number, { isTls = false } = {}): string {
  return `${isTls ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}`
}

export function isLocal(url: string): boolean {
  const { hostname } = new URL(url)
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d{1,3}){3}$/.test(hostname)
}

/** Whether standard output goes to the journal or the log of a container, which store it for others to read. */
function isKept(journalStream: string | undefined): boolean {
  return isStandardOutput(journalStream) || (process.pid === 1 && !process.stdout.isTTY)
}

/** The database may not answer yet, or have no connection for this; meanwhile, the server serves as well as it can. */
async function untilAnswered<T>({ log }: Pick<Server['app'], 'log'>, work: () => Promise<T>): Promise<T> {
  for (let isFirst = true; ; isFirst = false) {
    try {
      return await work()
    } catch (error) {
      if (findFailure(error)?.code !== 'E_UNAVAILABLE') throw error
      if (isFirst) log.warn({ err: error }, 'looking for tenants failed; it is tried again')
      await sleep(RETRY_MS, undefined, { ref: false })
    }
  }
}

function welcome({ name, api_key }: NewTenant, url: string): string {
  return `
This is the first start. Tenant "${name}" was created. Its API key, which is shown only once:

  ${api_key.secret}

Save it in a file that only you can read. To use it: npm install @eaas/sdk, and follow its README.
The API is described at ${url}/docs

`
}

const LOST = `eaas: tenant "${FIRST_TENANT}" was created, but its API key could not be printed and is lost. Create another one: eaas api-key create --help\n`

const OPEN =
  'Other machines can reach this address, without TLS: put a proxy with TLS in front of it, or set EAAS_TLS_CERT_FILE.\n'

const NO_TENANT = `
There is no tenant yet. The log would keep its API key, so create the first one beside this server:

  umask 077; eaas tenant create --name main > first-key

`
