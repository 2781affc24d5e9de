/**
 * The refusal to accept a loss of which only this process has an alarm: what is accepted must be what every
 * process knows.
 */
import { Refusal } from '../../runner/refusal.js'

/** Refuses to accept an alarm that the database has no row of; `log` names whose log it is about. */
export function unwrittenAlarm(log: string, reason: string): Refusal {
  return new Refusal(
    'E_STATE',
    `there is an alarm about ${log} (${reason}), but it could not be written into the database, so it cannot be accepted: eaas doctor names the ` +
      'right that this role lacks, or what somebody changed in the tables. Undo that, and repeat the command',
  )
}
