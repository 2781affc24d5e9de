/**
 * Limits the calls of each user in a minute. Counted in the memory of this process; other processes count on
 * their own.
 */
import { BrokerRefusal } from './problem.js'

const MINUTE_MS = 60_000

/** Counts a user's calls. @throws BrokerRefusal E_TOO_MANY_CALLS when they exceed the limit of a minute */
export type Count = (user: string, calls: number) => void

/**
 * Makes a counter. A user's minute begins with the first call; the first call after it begins another one.
 * The counter forgets a user whose minute is over.
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
