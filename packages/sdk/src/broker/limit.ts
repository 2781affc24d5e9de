/** How much each user may ask of a broker in a minute. In the memory of this process: another process counts for itself. */
import { BrokerRefusal } from './problem.js'

const MINUTE_MS = 60_000

/** Counts what a user asked for. @throws BrokerRefusal E_TOO_MANY_CALLS when it is more than a minute's worth */
export type Count = (user: string, calls: number) => void

/**
 * Makes a counter. A user's minute begins with the first call and is followed by a new one; a user without calls is forgotten
 * after it.
 */
export function createLimit(callsPerMinute: number, now: () => number): Count {
  const minutes = new Map<string, { since: number; calls: number }>()
  let sweptAt = now()

  const sweep = (time: number) => {
    if (time - sweptAt < MINUTE_MS) return
    sweptAt = time
    for (const [user, { since }] of minutes) if (time - since >= MINUTE_MS) minutes.delete(user)
  }
  return (user, calls) => {
    const time = now()
    sweep(time)
    const known = minutes.get(user)
    const minute = known && time - known.since < MINUTE_MS ? known : { since: time, calls: 0 }
    minutes.set(user, minute)
    if (minute.calls + calls > callsPerMinute) {
      const seconds = Math.max(1, Math.ceil((minute.since + MINUTE_MS - time) / 1_000))
      const detail = `more than ${callsPerMinute} calls in a minute; try again in ${seconds} s`
      throw new BrokerRefusal('E_TOO_MANY_CALLS', detail, { 'retry-after': String(seconds) })
    }
    minute.calls += calls
  }
}
