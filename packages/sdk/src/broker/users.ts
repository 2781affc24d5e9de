/** End users: how their ids are written, how many calls each may make a minute, and how much memory these may hold. */
import { createHeldBytes, escapeUser, type Holding, isWellFormed, MAX_BATCH_BODY_BYTES } from '@eaas/protocol'
import { InvalidInputError } from '../errors.js'
import { kindOf } from '../input.js'
import { BrokerRefusal } from './problem.js'

const MINUTE_MS = 60_000
/** The most characters of an id that the service accepts, all visible ASCII. */
const MAX_NAME = 255
/** What a call holds besides its body, in bytes. So a user has at most 512 open calls. */
const CALL_BYTES = 16_384
/** What a user's open calls may hold: as much as one call with the largest body that a broker accepts. */
const USER_BYTES = MAX_BATCH_BODY_BYTES + CALL_BYTES
/** What all open calls may hold in this process, which is also the application's. */
const PROCESS_BYTES = 8 * USER_BYTES

/**
 * Writes a user's id as `eaas-on-behalf-of` takes it and as the audit log shows it. Visible ASCII stays as it is;
 * comma, blank, percent sign and the UTF-8 bytes of all other characters are escaped like `%2C`. `decodeURIComponent`
 * restores the id.
 * @throws InvalidInputError when the id is not a string, is empty, has a lone surrogate, or is longer than 255
 * characters when encoded
 */
export function encodeUserId(id: string): string {
  if (typeof id !== 'string' || id === '') {
    const got = id === '' ? 'empty text' : kindOf(id)
    throw refuse(`a user's id must be text that is not empty, got ${got}`)
  }
  if (!isWellFormed(id)) throw refuse("a user's id must not contain a lone surrogate")
  const name = escapeUser(id)
  if (name.length > MAX_NAME) throw refuse(`a user's id must be at most ${MAX_NAME} characters when encoded`)
  return name
}

function refuse(message: string): InvalidInputError {
  const hint = '`authenticate` must return the user, an object with an `id`, or undefined if nobody is logged in.'
  return new InvalidInputError(message, hint)
}

export type Count = (user: string, calls: number) => void

/** Counts each user's calls in this process, per minute from the first of them. */
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

/** Bounds the memory of open calls. @throws BrokerRefusal E_TOO_MANY_CALLS for a user's, E_UNAVAILABLE for all */
export function createUserHoldings(): (user: string) => Holding {
  const hold = createHeldBytes<[user: string]>([PROCESS_BYTES, USER_BYTES], (bound) => {
    const [code, whose] =
      bound === 0 ? (['E_UNAVAILABLE', 'all users'] as const) : (['E_TOO_MANY_CALLS', 'this user'] as const)
    const detail = `the calls of ${whose} that are under way hold all the memory that there is for them; try again in 1 s`
    return new BrokerRefusal(code, detail, { 'retry-after': '1' })
  })
  return (user) => {
    const holding = hold(user)
    holding.take(CALL_BYTES)
    return holding
  }
}
