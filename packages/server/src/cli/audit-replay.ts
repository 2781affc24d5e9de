/** `eaas audit replay`: repeats the changes that took rights away and were lost in a rollback, by signed exports. */
import { createReadStream } from 'node:fs'
import { readHeader, splitLines } from '@eaas/audit'
import { assertFile, CommandError } from '@eaas/audit/command'
import { INSTALLATION_ID } from '@eaas/protocol'
import type { Config } from '../config.js'
import { planReplay, type Step } from '../operations/plan-replay.js'
import { isOfOneTenant } from '../operations/shared/renew-tenants.js'
import type { Services } from '../runner/operation.js'
import { performAsSystem } from '../runner/perform.js'
import { assertExport, createReader, type Reader, readEntries } from './audit-diff.js'
import { counted, print, printJson, showProgress, table } from './output.js'
import { type FoundTenant, getTenant, messageOf, withServices } from './with-services.js'

interface ReplayOptions {
  /** files, each of one tenant's log */
  export: string[]
  yes: boolean
  json: boolean
}

interface Row extends Omit<Step, 'operation'> {
  tenant_id: string
  tenant: string
  done: boolean
  /** true for a destruction that only the operator may repeat */
  is_left?: true
  /** why it failed */
  error?: string
}

/**
 * Shows what must be repeated, and with `yes` repeats it; returns whether nothing failed. Every export is verified
 * before anything is changed.
 *
 * @throws Refusal, CommandError
 */
export async function auditReplay(config: Config, { export: files, yes, json }: ReplayOptions): Promise<boolean> {
  const progress = showProgress('replay:')
  const { rows, others } = await withServices(config, async (services) => {
    const plans: { owner: FoundTenant; steps: Step[] }[] = []
    let others = 0
    for (const file of files) {
      progress(file)
      const read = createReader()
      const owner = await ownerOf(services, file, read.hashed)
      if (plans.some(({ owner: { tenant_id } }) => tenant_id === owner.tenant_id)) {
        throw new CommandError(`${file} is of the same tenant as another export. Give the newest one alone.`)
      }
      const plan = await planReplay(services, owner.tenant_id, readEntries(file, read.hashed))
      read.assertSame(file)
      others += plan.others
      plans.push({ owner, steps: plan.steps })
    }
    const rows: Row[] = []
    for (const { owner, steps } of plans) {
      progress(owner.name)
      for (const step of steps) rows.push(await replayOne(services, owner, step, yes))
    }
    return { rows, others }
  }).finally(progress.done)
  if (json) printJson({ done: yes, changes: rows, others })
  else print(...describe(rows, others, yes))
  return rows.every(({ error }) => error === undefined)
}

/** Verifies an export by this installation's keys; returns whose log it is. */
async function ownerOf(services: Services, file: string, read: Reader['hashed']): Promise<FoundTenant> {
  await assertFile(file)
  let tenant_id = ''
  for await (const line of splitLines(createReadStream(file))) {
    tenant_id = readHeader(line).tenant_id
    break
  }
  if (tenant_id === INSTALLATION_ID) {
    throw new CommandError(
      `${file} is of the installation's log, of which nothing is repeated: see eaas audit diff --installation`,
    )
  }
  const owner = await getTenant(services, tenant_id)
  await assertExport(file, { tenant_id, publicKey: services.signingKey.publicKeys }, read)
  return owner
}

async function replayOne(
  services: Services,
  { tenant_id, name: tenant }: FoundTenant,
  { operation, ...step }: Step,
  yes: boolean,
): Promise<Row> {
  const row = { tenant_id, tenant, ...step, ...(operation ? {} : { is_left: true as const }) }
  if (!yes || !operation) return { ...row, done: false }
  try {
    await performAsSystem(services, tenant_id, operation)
    return { ...row, done: true }
  } catch (error) {
    if (!isOfOneTenant(error)) throw error
    return { ...row, done: false, error: messageOf(error) }
  }
}

function describe(rows: readonly Row[], others: number, yes: boolean): string[] {
  const more =
    others === 0
      ? []
      : [`${counted(others, 'lost change')} more must be decided by you: eaas audit diff --export names them.`]
  if (rows.length === 0) return ['Nothing must be repeated.', ...more]
  const lines = rows.map((row) => [
    row.tenant,
    String(row.entry_id),
    row.change,
    `${row.name} (${row.id})`,
    describeOutcome(row, yes),
  ])
  return [
    ...table(['TENANT', 'LOST ENTRY', 'CHANGE', 'OF', ''], lines),
    '',
    yes
      ? `${rows.filter(({ done }) => done).length} of ${counted(rows.length, 'change')} repeated. The logs record each.`
      : 'Nothing was changed. Repeat them with --yes.',
    ...more,
  ]
}

function describeOutcome({ error, is_left }: Row, yes: boolean): string {
  if (error !== undefined) return `FAILED: ${error}`
  if (is_left) return 'LEFT TO YOU: it would destroy at once (EAAS_DESTROY_WINDOW_DAYS=0): eaas key destroy'
  return yes ? 'done' : 'to do'
}
