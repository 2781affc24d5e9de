/**
 * `eaas audit accept-clock`: shows the logs whose last entries a wrong clock dated in the future, and lets them
 * continue with the right time.
 */
import { INSTALLATION_ID } from '@eaas/protocol'
import type { Config } from '../../core/config.js'
import type { Services } from '../../core/runner/operation.js'
import { acceptClock, type LogAhead, listLogsAhead } from '../../guard/operations/accept-clock.js'
import { print, printJson } from './output.js'
import { describeTenant, messageOf, withServices } from './with-services.js'

type Row = LogAhead & { name: string; entry_id?: number; refused?: string }

/**
 * Lists the logs, and with a reason accepts that the clock was wrong; returns false if one could not record
 * that.
 */
export async function auditAcceptClock(
  config: Config,
  { reason, json }: { reason?: string; json: boolean },
): Promise<boolean> {
  const now = new Date().toISOString()
  const rows = await withServices(config, async (services) => {
    const rows: Row[] = []
    for (const ahead of await listLogsAhead(services)) {
      const row: Row = { ...ahead, name: await nameOf(services, ahead.tenant_id) }
      rows.push(row)
      if (reason === undefined) continue
      try {
        const entry_id = await acceptClock(services, ahead.tenant_id, reason)
        if (entry_id !== undefined) row.entry_id = entry_id
      } catch (error) {
        row.refused = messageOf(error)
      }
    }
    return rows
  })
  if (json) printJson({ now, logs: rows })
  else
    print(
      ...(rows.length === 0 ? [`No log is ahead of this clock, by which it is ${now}.`] : describe(rows, now, reason)),
    )
  return rows.every(({ refused }) => refused === undefined)
}

async function nameOf({ states }: Services, tenant_id: string): Promise<string> {
  if (tenant_id === INSTALLATION_ID) return 'installation'
  return (await states.find(tenant_id))?.tenant.name ?? '?'
}

function describe(rows: readonly Row[], now: string, reason: string | undefined): string[] {
  const lines = rows.map(({ last_id, ahead_until, entry_id, refused, ...log }) => {
    const done = entry_id === undefined ? '' : `; accepted in entry ${entry_id}`
    return `${describeTenant(log)}: entry ${last_id} is of ${ahead_until}${done}${refused === undefined ? '' : `; NOT accepted: ${refused}`}`
  })
  if (reason === undefined) {
    return [
      `These logs end in the future: by this clock, it is ${now}.`,
      ...lines,
      'If this clock is right, give a reason to accept that another one was wrong: --reason <text>. Nothing was changed.',
    ]
  }
  return [
    ...lines,
    'New entries have the right time again. Entries that the wrong clock dated stay as they are, and so do times that followed from them: set rotations of keys',
    'again, and cancel and repeat destructions, that were scheduled then (eaas key list).',
  ]
}
