// `eaas accept rollback --all --from-diff`: accepts the loss of logs that a diff shows as different, and ends alarms
// about logs that it shows as the same. Only its list of logs, and the extent of each shown loss, are taken from the
// file.
import { encodePublicKey } from '@eaas/audit'
import { CommandError, readGiven } from '@eaas/audit/command'
import { counted, INSTALLATION_ID } from '@eaas/protocol'
import * as z from 'zod/mini'
import type { Config } from '../../core/config.js'
import type { Services } from '../../core/runner/operation.js'
import { acceptRollbacks, NoAlarm, type Shown } from '../../guard/operations/accept-rollback.js'
import { listAlarms } from '../../guard/store/alarms.js'
import { findNewestAcceptance } from '../../guard/watch/acceptances.js'
import { linesOf, print, printAlarms, printJson, showProgress } from './output.js'
import { messageOf, withServices } from './with-services.js'

const entryId = z.int().check(z.gte(0))
const logSchema = z.object({
  tenant_id: z.uuid(),
  outcome: z.enum(['same', 'different', 'missing', 'not compared']),
  last_id: z.nullable(entryId),
  agrees_through: z.nullable(entryId),
  witnessed_through: z.nullable(entryId),
})
const diffSchema = z.object({ public_key: z.string(), logs: z.array(logSchema) })
type Diff = z.infer<typeof diffSchema>

interface AcceptAllOptions {
  fromDiff: string // the output of `eaas audit diff --all --json`
  reason: string
  json: boolean
}

/** Returns whether no alarm is left and no log was refused. May be repeated. @throws CommandError */
export async function acceptAllRollbacks(
  config: Config,
  { fromDiff, reason, json }: AcceptAllOptions,
): Promise<boolean> {
  const diff = await readDiff(fromDiff)
  const progress = showProgress('accepted')
  let alarms = 0
  const done = await withServices(
    config,
    (services) => acceptAll(services, diff, { reason, file: fromDiff, progress }),
    { comparesAll: true, onAlarm: () => alarms++ },
  ).finally(progress.done)
  const { shown, accepted, before, refused, left, missing, isDone } = done
  if (json) {
    const named = refused.map(({ tenant_id, error }) => ({ tenant_id, error: messageOf(error) }))
    printJson({ accepted, accepted_before: before, refused: named, left, missing })
    return isDone
  }
  const [first] = refused
  const lost = missing.filter((tenant_id) => left.includes(tenant_id))
  const unknown = missing.length - lost.length
  if (accepted.length === 0) printAlarms(alarms)
  print(
    linesOf(
      `Accepted: ${counted(accepted.length, 'log')} of ${counted(shown.length, 'that differs or has an alarm', 'that differ or have an alarm')}.`,
      before.length > 0 && `Accepted before: ${counted(before.length, 'log')}.`,
      first && `Refused: ${refused.length}, the first ${first.tenant_id}: ${messageOf(first.error)}.`,
      lost.length > 0 && `Missing: ${counted(lost.length, 'tenant')}, to be accepted one by one (eaas accept tenant).`,
      // If the installation's log went back, it no longer names such a tenant.
      unknown > 0 && `Missing without an alarm: ${counted(unknown, 'tenant')}, where nothing is to be accepted.`,
      left.length === 0 ? 'No alarm is left.' : `${counted(left.length, 'alarm')} left: eaas doctor names them.`,
      'Now repeat what was lost, which eaas audit diff --export names.',
    ).join(' '),
  )
  return isDone
}

const isOwn = ({ tenant_id }: Shown) => tenant_id === INSTALLATION_ID
const listAlarmed = async ({ sql }: Services) => (await listAlarms(sql)).map(({ tenant_id }) => tenant_id)

async function readDiff(file: string): Promise<Diff> {
  const text = await readGiven(file)
  try {
    return diffSchema.parse(JSON.parse(text))
  } catch {
    throw new CommandError(`${file} is not what eaas audit diff --all --json prints. Make it again.`)
  }
}

async function acceptAll(
  services: Services,
  { public_key, logs }: Diff,
  { reason, file, progress }: { reason: string; file: string; progress: (state: string) => void },
) {
  if (public_key !== encodePublicKey(services.signingKey)) {
    throw new CommandError(
      `${file} is of another installation, or of before its signing key was replaced. Make it again.`,
    )
  }
  // Once the right database is back, its logs are the same as before, but the alarms about them remain.
  const alarmed = await listAlarmed(services)
  const isShown = ({ tenant_id, outcome }: Diff['logs'][number]) =>
    outcome === 'different' || (outcome === 'same' && alarmed.includes(tenant_id))
  // A log whose audit key was tampered with has no such entries, and must be repaired.
  const shown = logs.filter(isShown).map(
    ({ tenant_id, last_id, agrees_through, witnessed_through }): Shown => ({
      tenant_id,
      last_id: last_id ?? -1,
      agrees_through: agrees_through ?? -1,
      witnessed_through: witnessed_through ?? -1,
    }),
  )
  if (new Set(shown.map(({ tenant_id }) => tenant_id)).size < shown.length) {
    throw new CommandError(`${file} names a log twice.`)
  }
  // Until its own loss is accepted, the installation's log can record no loss of another log.
  const own = await acceptRollbacks(services, shown.filter(isOwn), { reason })
  const tenants = shown.filter((each) => !isOwn(each))
  const others = await acceptRollbacks(services, tenants, {
    reason,
    onProgress: (count) => progress(`${count} of ${tenants.length}`),
  })
  const left = await listAlarmed(services)
  const refused = [...own.refused, ...others.refused]
  const before: typeof refused = []
  for (const each of refused) if (await isAcceptedSince(services, shown, each)) before.push(each)
  const stillRefused = refused.filter((each) => !before.includes(each))
  return {
    shown,
    accepted: [...own.accepted, ...others.accepted],
    before: before.map(({ tenant_id }) => tenant_id),
    refused: stillRefused,
    left,
    isDone: left.length + stillRefused.length === 0,
    missing: logs.filter(({ outcome }) => outcome === 'missing').map(({ tenant_id }) => tenant_id),
  }
}

async function isAcceptedSince(
  { sql, states }: Services,
  shown: readonly Shown[],
  { tenant_id, error }: { tenant_id: string; error: unknown },
): Promise<boolean> {
  const state = error instanceof NoAlarm ? await states.find(tenant_id) : undefined
  const one = shown.find((each) => each.tenant_id === tenant_id)
  if (!state || !one || one.last_id < 0) return false
  const { id } = await findNewestAcceptance(sql, { tenant_id, auditKey: state.auditKey })
  return id > Math.max(one.last_id, one.agrees_through)
}
