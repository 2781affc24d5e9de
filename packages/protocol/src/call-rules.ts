/** What the table of rules (routes.ts) says about a call, for the server, `/testing`, OpenAPI and the rights report. */
import { FREE_KEY_VERSIONS, MAX_KEY_VERSIONS_PER_HOUR } from './limits.js'
import type { HeldPermission, Permission } from './names.js'
import type { ProblemCode } from './problem.js'
import { DETAILS } from './problem-details.js'
import type { CallRule, KeyCall, KeyRule, KeyStatus, OperationId } from './routes.js'
import { KEY_STATUSES, RULES } from './routes.js'
import type { WrapContext } from './wrapped-key-v2.js'

const HOUR_MS = 3_600_000
export const CALL_RULES: Readonly<Record<OperationId, CallRule>> = RULES

export function findKeyRule(call: KeyCall): KeyRule {
  return RULES[call].key
}

/** Why a key in this state refuses the call; undefined if it answers. */
export function findStateRefusal(call: KeyCall, status: KeyStatus): { code: ProblemCode; detail: string } | undefined {
  const { to, states, unchanged = [] } = findKeyRule(call)
  if (states.includes(status)) return undefined
  // A separate code, since neither a retry nor a restored envelope brings back erased data.
  if (status === 'destroyed') return { code: 'E_KEY_DESTROYED', detail: DETAILS.E_KEY_DESTROYED.key }
  const changed = states.filter((state) => !unchanged.includes(state))
  return { code: 'E_STATE', detail: DETAILS.E_STATE.key(status, to, changed) }
}

export function findKeyProblems({ states }: KeyRule): ProblemCode[] {
  const refusing = KEY_STATUSES.filter((status) => !states.includes(status))
  const codes = refusing.map((status) => (status === 'destroyed' ? 'E_KEY_DESTROYED' : 'E_STATE'))
  return ['E_NOT_FOUND', ...new Set(codes)]
}

/** Whether the call is answered in this state, and changes nothing and writes no entry. */
export function changesNothing(call: KeyCall, status: KeyStatus): boolean {
  const { unchanged = [] }: KeyRule = RULES[call].key
  return unchanged.includes(status)
}

/** Why a caller may not rotate a key now; undefined if it may. `createdAt` returns the time of a version. */
export function findRotationPause(
  current: number,
  { createdAt, now }: { createdAt: (version: number) => string | undefined; now: number },
): { code: ProblemCode; detail: string } | undefined {
  const oldest = current < FREE_KEY_VERSIONS ? undefined : createdAt(current + 1 - MAX_KEY_VERSIONS_PER_HOUR)
  const until = oldest === undefined ? now : Date.parse(oldest) + HOUR_MS
  if (until <= now) return undefined
  return { code: 'E_LIMIT', detail: DETAILS.E_LIMIT.versionsPerHour(new Date(until).toISOString()) }
}

/** Whether a search of the log confirms guesses, as a hash does; it then needs `hash`, and counts as one. */
export function confirmsGuesses({ context = {} }: { context?: WrapContext | undefined }): boolean {
  return Object.keys(context).length > 0
}

/** The permissions of all calls that have an effect on a key in this state, each once. */
export function findUsefulPermissions(status: KeyStatus): Permission[] {
  const useful = new Set<Permission>()
  for (const { permissions, key } of Object.values<CallRule>(RULES)) {
    if (!key?.states.includes(status) || key.unchanged?.includes(status)) continue
    for (const permission of permissions) useful.add(permission)
  }
  return [...useful]
}

/** Permissions that imply others: clients in other languages wrap and hash with `encrypt` alone. */
const IMPLIED_BY: Partial<Record<HeldPermission, Permission>> = { hash: 'encrypt', wrap: 'encrypt', unwrap: 'decrypt' }

export function findMissingPermission<Needed extends HeldPermission>(
  held: readonly HeldPermission[],
  needed: readonly Needed[],
): Needed | undefined {
  return needed.find((permission) => {
    const implying = IMPLIED_BY[permission]
    return !held.includes(permission) && !(implying !== undefined && held.includes(implying))
  })
}
