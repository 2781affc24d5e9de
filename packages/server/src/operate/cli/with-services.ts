/** Opens the installation for the operator's commands, beside a running server, and finds tenants by name or id. */
import { existsSync } from 'node:fs'
import { hostname, userInfo } from 'node:os'
import { foldUuid, INSTALLATION_ID, isUuid, isWellFormed, visible } from '@eaas/protocol'
import type { Config } from '../../core/config.js'
import { RootKeyError } from '../../core/crypto/key-hierarchy.js'
import { type Periodic, startPeriodic } from '../../core/jobs/periodic.js'
import type { EntryNote, Operation, Services } from '../../core/runner/operation.js'
import { performAsSystem } from '../../core/runner/perform.js'
import { Refusal } from '../../core/runner/refusal.js'
import { STORE_KEYS_MS } from '../../core/runner/store-keys.js'
import { withDeadline } from '../../core/store/deadline.js'
import { TamperedRowError } from '../../core/store/tampered-row.js'
import { findTenantByName, type TenantRow } from '../../core/store/tenants.js'
import { recordAlone } from '../../guard/installation-log.js'
import { createWitnessEmitter } from '../../guard/jobs/emit-checkpoints.js'
import { watchesOf } from '../../guard/watch/head-watch.js'
import { STANDARD_OUTPUT } from '../../guard/watch/kept-witnesses.js'
import { type Installation, openInstallation } from '../../installation.js'
import { commandConfig, type LogChoice } from './command.js'
import { failWithoutDatabase } from './fail.js'

interface OpenedBy {
  mayCreate?: boolean
  comparesAll?: boolean // first compare every log with the checkpoint file and the anchors, and raise alarms
  keepsCommitted?: boolean // record in the checkpoint file what the work wrote to the logs; true by default
  onAlarm?: typeof printAlarm // called with each alarm; by default it is printed to standard error
}

/** Without `mayCreate`, a command in the wrong directory fails and leaves nothing there. */
export async function withServices<T>(
  config: Config,
  work: (services: Services) => Promise<T>,
  { mayCreate = false, comparesAll = false, keepsCommitted = true, onAlarm = printAlarm }: OpenedBy = {},
): Promise<T> {
  const installation = await openInstallation({
    config,
    beside: true,
    mayCreate,
    actor: operatorName(),
    onDatabaseFailure: failWithoutDatabase,
    onMigrationLocked: (message) => process.stderr.write(`eaas: ${message}\n`),
    onAlarm,
  })
  const storeKeys = followStoreKeys(installation)
  try {
    if (comparesAll) await compareAll(installation)
    return await work(installation.services)
  } finally {
    await storeKeys.stop()
    if (keepsCommitted) await keepCommitted(installation.services, config.checkpointFile)
    await installation.close()
  }
}

// As servers do, so that a rotation does not fail a long command. Any other failure also shows in the work itself.
function followStoreKeys({ refreshStoreKeys }: Installation): Periodic {
  let told = ''
  return startPeriodic({
    intervalMs: STORE_KEYS_MS,
    work: refreshStoreKeys,
    onError(error) {
      const message = messageOf(error)
      if (error instanceof RootKeyError && message !== told) process.stderr.write(`eaas: ${message}\n`)
      told = message
    },
    after: new Promise(() => undefined), // opening the installation has just read them
  })
}

// Opening compares only some logs, as a server does each second; until all had their turn, an alarm may be missing.
async function compareAll({ services, sharedAlarms }: Installation): Promise<void> {
  const { comparisons } = watchesOf(services.committer)
  const from = performance.now()
  do {
    const [error] = await sharedAlarms.compare()
    if (error !== undefined) return // a tenant's error, which its own turn reports
  } while (comparisons.age > performance.now() - from)
}

function printAlarm(message: string, details: Record<string, unknown>): void {
  process.stderr.write(`eaas: ${message} ${JSON.stringify(details)}\n`)
}

// Without a server, nothing else witnesses what a command writes before an attacker undoes it. A missing file is left
// for the server to create, whose user must be able to write it.
async function keepCommitted({ committer, signingKey, now }: Services, file: string | undefined): Promise<void> {
  if (file === undefined || file === STANDARD_OUTPUT || !existsSync(file)) return
  const committed = [...watchesOf(committer).all()].filter(({ hasCommitted }) => hasCommitted)
  try {
    await createWitnessEmitter({ signingKey, now }, file)(committed)
  } catch (error) {
    process.stderr.write(
      `eaas: ${file} (EAAS_CHECKPOINT_FILE) does not have what this command wrote, as it could if it ran as the server's user: ${messageOf(error)}\n`,
    )
  }
}

/** The actor of a command: the user and host according to the operating system, which proves neither. */
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

export function messageOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause === undefined ? error.message : `${error.message}: ${messageOf(error.cause)}`
}

/** From the authenticated row. */
export type FoundTenant = Pick<TenantRow, 'tenant_id' | 'name'>

export function describeTenant({ tenant_id, name }: FoundTenant): string {
  if (tenant_id === INSTALLATION_ID) return 'the installation'
  return `tenant ${visible(name)} (${tenant_id})`
}

/** The owner of the log that a command is about. @throws Refusal E_NOT_FOUND if there is no such tenant, TamperedRowError */
export async function getLogOwner(services: Services, { tenant = '', installation }: LogChoice): Promise<FoundTenant> {
  return installation ? { tenant_id: INSTALLATION_ID, name: 'installation' } : getTenant(services, tenant)
}

export function performIn<Answer>(
  log: LogChoice,
  operation: Operation<Answer>,
  config = commandConfig(),
): Promise<{ owner: FoundTenant; answer: Answer }> {
  return withServices(config, async (services) => {
    const owner = await getLogOwner(services, log)
    return { owner, answer: await performAsSystem(services, owner.tenant_id, operation) }
  })
}

/** Records what an operator has already done; prints a failure to standard error. */
export async function recordOperation(services: Services, note: EntryNote): Promise<void> {
  try {
    await withDeadline(recordAlone(services, [note]))
  } catch (error) {
    process.stderr.write(`eaas: the installation's log does not record this command: ${messageOf(error)}\n`)
  }
}

export async function getTenant(services: Services, tenant: string): Promise<FoundTenant> {
  const found = await findTenant(services, tenant)
  if (found !== undefined) return found
  throw new Refusal('E_NOT_FOUND', `there is no tenant ${tenant}; see: eaas tenant list`)
}

/**
 * Tries an id first, since another tenant may have it as its name. A name must be that of the authenticated row,
 * because the owner of the database can swap names for one statement. @throws TamperedRowError
 */
export async function findTenant(
  { sql, states }: Pick<Services, 'sql' | 'states'>,
  tenant: string,
): Promise<FoundTenant | undefined> {
  if (tenant === INSTALLATION_ID) return undefined
  const id = foldUuid(tenant)
  const byId = isUuid(id) ? await states.find(id) : undefined
  if (byId) return { tenant_id: id, name: byId.tenant.name }
  const named = await findTenantByName(sql, tenant)
  const state = named && (await states.find(named.tenant_id))
  if (!state) return undefined
  const { fault, tenant: found } = state
  const { tenant_id, name } = found
  if (fault) throw new TamperedRowError(`${fault.message}, so its name proves nothing; give its id: ${tenant_id}`)
  if (name === tenant) return { tenant_id, name }
  throw new TamperedRowError(
    `the database answered with another tenant than ${tenant}: with ${describeTenant({ tenant_id, name })}. Give the id of the one that you mean`,
  )
}
