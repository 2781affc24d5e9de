/** Refuses to accept a loss about which only this process has an alarm: every process must know what is accepted. */
import { Refusal } from '../../core/runner/refusal.js'

/** Makes the refusal to accept an alarm that has no row in the database; `log` names the log that it is about. */
export function unwrittenAlarm(log: string, reason: string): Refusal {
  return new Refusal(
    'E_STATE',
    `there is an alarm about ${log} (${reason}), but it could not be written into the database, so it cannot be accepted: eaas doctor names the ` +
      'right that this role lacks, or what somebody changed in the tables. Undo that, and repeat the command',
  )
}
