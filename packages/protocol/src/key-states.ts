/**
 * Which calls a key answers in which state: the only table of it. The server and `/testing` refuse by it, and
 * the rights report reads from it what an API key can do with a key. Its own file, because web pages download
 * none of it.
 */

import { KEY_STATUSES } from './key-status.js'
import type { Permission } from './permissions.js'
import type { ProblemCode } from './problem.js'
import { DETAILS } from './problem-details.js'
import { ROUTE_PERMISSIONS } from './route-permissions.js'
import type { OperationId } from './routes.js'

type KeyStatus = (typeof KEY_STATUSES)[number]

interface KeyRow {
  /** what the call does, in the sentence that refuses it */
  to: string
  /** the states in which the call is answered, in the order of `KEY_STATUSES` */
  states: readonly KeyStatus[]
  /** those of them in which it changes nothing and writes no entry */
  unchanged?: readonly KeyStatus[]
}

const ACTIVE = ['active'] as const
/** Disabling stops new use, not reading. */
const OPENING = ['active', 'disabled'] as const

/** Each call on a key, in the order in which the rights report lists their permissions. */
export const KEY_CALLS = {
  wrap: { to: 'wrap', states: ACTIVE },
  encrypt: { to: 'encrypt', states: ACTIVE },
  hash: { to: 'hash', states: ACTIVE },
  unwrap: { to: 'unwrap', states: OPENING },
  decrypt: { to: 'decrypt', states: OPENING },
  rewrap: { to: 'rewrap', states: ACTIVE },
  getKey: { to: 'read', states: KEY_STATUSES },
  rotateKey: { to: 'rotate', states: ACTIVE },
  setRotation: { to: 'set its rotation', states: OPENING },
  disableKey: { to: 'disable', states: OPENING, unchanged: ['disabled'] },
  enableKey: { to: 'enable', states: OPENING, unchanged: ['active'] },
  destroyKey: {
    to: 'destroy',
    states: ['disabled', 'pending_destruction', 'destroyed'],
    unchanged: ['pending_destruction', 'destroyed'],
  },
  cancelDestruction: { to: 'cancel its destruction', states: ['pending_destruction'] },
  exportKey: { to: 'export', states: OPENING },
} as const satisfies Partial<Record<OperationId, KeyRow>>

/** A call on a key, by its `operationId`. */
export type KeyCall = keyof typeof KEY_CALLS

/** Finds why a key in this state refuses the call; undefined if it answers. */
export function findStateRefusal(call: KeyCall, status: KeyStatus): { code: ProblemCode; detail: string } | undefined {
  const { to, states }: KeyRow = KEY_CALLS[call]
  if (states.includes(status)) return undefined
  // A code of its own, so that an application can tell erased data, which no retry and no restored envelope
  // brings back.
  if (status === 'destroyed') return { code: 'E_KEY_DESTROYED', detail: DETAILS.E_KEY_DESTROYED.key }
  return { code: 'E_STATE', detail: DETAILS.E_STATE.key(status, to, states) }
}

/** The permissions with which a call does anything to a key in this state, each once. */
export function findUsefulPermissions(status: KeyStatus): Permission[] {
  const useful = new Set<Permission>()
  for (const [call, { states, unchanged = [] }] of Object.entries<KeyRow>(KEY_CALLS)) {
    if (!states.includes(status) || unchanged.includes(status)) continue
    for (const permission of ROUTE_PERMISSIONS[call as KeyCall].permissions) useful.add(permission)
  }
  return [...useful]
}
