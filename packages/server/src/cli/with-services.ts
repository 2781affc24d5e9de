/** Opens the installation for the operator's commands, beside a running server, and finds tenants by name or id. */
import { hostname, userInfo } from 'node:os'
import { INSTALLATION_ID, isUuid, isWellFormed } from '@eaas/protocol'
import type { Config } from '../config.js'
import { openInstallation } from '../installation.js'
import { recordAlone } from '../runner/installation-log.js'
import type { EntryNote, Services } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import { withDeadline } from '../store/deadline.js'
import { findTenantByName } from '../store/tenants.js'
import type { LogChoice } from './command.js'

/**
 * Opens the installation, beside a server if one runs, does the work and closes it. Creates an installation only with `mayCreate`: a
 * command in the wrong directory should fail and leave nothing there.
 */
export async function withServices<T>(
  config: Config,
  work: (services: Services) => Promise<T>,
  { mayCreate = false } = {},
): Promise<T> {
  const installation = await openInstallation({
    config,
    beside: true,
    mayCreate,
    actor: operatorName(),
    onAlarm: (message, details) => process.stderr.write(`eaas: ${message} ${JSON.stringify(details)}\n`),
  })
  try {
    return await work(installation.services)
  } finally {
    await installation.close()
  }
}

/** The actor of what a command does: the user and the host as the operating system names them, which proves nothing about either. */
export function operatorName(): string {
  const name = `operator:${userName()}@${hostname()}`
  return isWellFormed(name) ? name : 'operator:unknown'
}

function userName(): string {
  try {
    return userInfo().username
  } catch {
    return `uid-${process.getuid?.() ?? 'unknown'}` // in a container, a user may have no name
  }
}

/** The message of an error and its causes, in one sentence. */
export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause === undefined ? error.message : `${error.message}: ${messageOf(error.cause)}`
}

/** The id under which a log stands. @throws Refusal E_NOT_FOUND if there is no such tenant */
export async function getLogId(services: Services, { tenant = '', installation }: LogChoice): Promise<string> {
  return installation ? INSTALLATION_ID : getTenantId(services, tenant)
}

/** Records in the installation's log what an operator did. If that fails, the work is done nevertheless, and standard error says so. */
export async function recordOperation(services: Services, note: EntryNote): Promise<void> {
  try {
    await withDeadline(recordAlone(services, [note]))
  } catch (error) {
    process.stderr.write(`eaas: the installation's log does not record this command: ${messageOf(error)}\n`)
  }
}

/** The id of a tenant given by its name or id. @throws Refusal E_NOT_FOUND */
export async function getTenantId(services: Services, tenant: string): Promise<string> {
  const found = await findTenantId(services, tenant)
  if (found !== undefined) return found
  throw new Refusal('E_NOT_FOUND', `there is no tenant ${tenant}; see: eaas tenant list`)
}

/** The id of a tenant given by its name or id. An id is tried first, because another tenant may have it as its name. */
export async function findTenantId({ sql, states }: Services, tenant: string): Promise<string | undefined> {
  if (tenant === INSTALLATION_ID) return undefined
  if (isUuid(tenant) && (await states.find(tenant))) return tenant
  return (await findTenantByName(sql, tenant))?.tenant_id
}
