// What operators monitor over HTTP. Writes no entry, since a monitor calls it every minute. Unlike all other calls of
// operators, it is answered even while the installation's own log has an alarm.
import { INSTALLATION_ID } from '@eaas/protocol'
import type { z } from 'zod/mini'
import type { CheckedHealth } from '../core/api/health.js'
import type { Operation, Services } from '../core/runner/operation.js'
import { findBackupAge } from '../core/store/instance.js'
import { watchesOf } from '../guard/watch/head-watch.js'
import { describeRefused, TENANT_GONE } from '../guard/watch/shared-alarms.js'
import { VERSION } from '../version.js'
import type { alarmList, serverStatus } from './operator-schemas.js'

/** The tenant's rows are missing, or its log is not the one that a server wrote or read. */
export const ALARM_CODES = ['tenant_gone', 'log_differs'] as const

const ALARM_PAGE = 'What to do when an alarm is raised'

type AlarmList = z.infer<typeof alarmList>
type Status = z.infer<typeof serverStatus>

/** Lists the alarms that this server knows; other servers on the database adopt them within a second. */
export function listAlarms(): Operation<AlarmList> {
  return watching(async ({ committer }) => {
    const alarmed = watchesOf(committer).alarmed()
    const alarms = alarmed.map(({ tenant_id, alarm }) => viewAlarm(tenant_id, alarm?.reason ?? ''))
    return { alarms, count: alarms.length }
  })
}

function viewAlarm(tenant_id: string, reason: string): AlarmList['alarms'][number] {
  const isOwn = tenant_id === INSTALLATION_ID
  const isGone = reason === TENANT_GONE
  const log = isOwn ? '--installation' : `--tenant ${tenant_id}`
  const steps = isGone
    ? [`eaas accept tenant ${tenant_id} --help`]
    : [`eaas audit verify ${log}`, `eaas accept rollback ${log} --help`]
  return {
    tenant_id: isOwn ? null : tenant_id,
    code: isGone ? 'tenant_gone' : 'log_differs',
    reason,
    refused: describeRefused([tenant_id]),
    commands: ['eaas doctor', ...steps],
    page: ALARM_PAGE,
  }
}

export interface OperatorSources {
  checkHealth: () => Promise<CheckedHealth>
  ages: () => Omit<Status['ages_in_seconds'], 'backup'>
  /** according to the last verification of all logs; null before the first one */
  invalidLogs: () => number | null
}

/** Reports the state of the server, and the ages of its backups and of what guards its logs. */
export function readStatus(sources: OperatorSources): Operation<Status> {
  return watching(async ({ sql, committer }) => ({
    version: VERSION,
    health: (await sources.checkHealth()).health,
    ages_in_seconds: { ...sources.ages(), backup: await findBackupAge(sql) },
    alarms: committer.guard.alarmedTenants().length,
    invalid_logs: sources.invalidLogs(),
  }))
}

function watching<Answer>(read: (services: Services) => Promise<Answer>): Operation<Answer> {
  return ({ services }) => ({ entries: [], freshness: 'as_found', release: () => read(services) })
}
