/** Which errors of a job say something about the data, rather than that the job could not find out or do something. */
import { ChainAlarmError } from '../audit/append-errors.js'
import { Refusal } from '../runner/refusal.js'
import { TamperedRowError } from '../store/tampered-row.js'

/** Whether trying again does not help: the data must change, or an operator must act. */
export function isFinding(error: unknown): boolean {
  return error instanceof Refusal || error instanceof TamperedRowError || error instanceof ChainAlarmError
}
