/**
 * What each call of the API needs: permissions, and of a call on a key the states in which it is answered. The
 * only table of it: the server and `/testing` refuse by it, OpenAPI is made from it, and the rights report reads
 * from it what an API key can do with a key. Not in the table of routes, since web pages download that one with
 * the SDK, and never this one.
 */
import { KEY_STATUSES, type Permission } from './names.js'
import type { ProblemCode } from './problem.js'
import { DETAILS } from './problem-details.js'
import type { OperationId } from './routes.js'

type KeyStatus = (typeof KEY_STATUSES)[number]

/** When a key answers a call. */
export interface KeyRule {
  /** what the call does, in the sentence that refuses it */
  to: string
  /** the states in which the call is answered, in the order of `KEY_STATUSES` */
  states: readonly KeyStatus[]
  /** those of them in which it changes nothing and writes no entry */
  unchanged?: readonly KeyStatus[]
}

export interface CallRule {
  /**
   * the permissions that the API key needs, each itself or by one that implies it; empty for a batch, whose
   * operations each need their own. A caller that acts for an end user (on-behalf-of.ts) needs
   * `audit:on_behalf_of` besides, in any call: the server adds it.
   */
  permissions: readonly Permission[]
  /** the server sees the plaintext: closed to envelope-only tenants */
  serverMode?: true
  /** of a call on one key */
  key?: KeyRule
}

const ACTIVE = ['active'] as const
/** Disabling stops new use, not reading. */
const OPENING = ['active', 'disabled'] as const

/**
 * Every call, by its name in `ROUTES`; those on a key in the order in which the rights report lists their
 * permissions.
 */
const RULES = {
  wrap: { permissions: ['encrypt'], key: { to: 'wrap', states: ACTIVE } },
  encrypt: { permissions: ['encrypt'], serverMode: true, key: { to: 'encrypt', states: ACTIVE } },
  hash: { permissions: ['hash'], key: { to: 'hash', states: ACTIVE } },
  unwrap: { permissions: ['decrypt'], key: { to: 'unwrap', states: OPENING } },
  decrypt: { permissions: ['decrypt'], serverMode: true, key: { to: 'decrypt', states: OPENING } },
  rewrap: { permissions: ['encrypt', 'decrypt'], key: { to: 'rewrap', states: ACTIVE } },
  batch: { permissions: [] },
  getKey: { permissions: ['keys:read'], key: { to: 'read', states: KEY_STATUSES } },
  listKeys: { permissions: ['keys:read'] },
  createKey: { permissions: ['keys:create'] },
  createKeys: { permissions: ['keys:create'] },
  rotateKey: { permissions: ['keys:rotate'], key: { to: 'rotate', states: ACTIVE } },
  setRotation: { permissions: ['keys:rotate'], key: { to: 'set its rotation', states: OPENING } },
  disableKey: {
    permissions: ['keys:disable'],
    key: {
      to: 'disable',
      states: ['active', 'disabled', 'pending_destruction'],
      unchanged: ['disabled', 'pending_destruction'],
    },
  },
  enableKey: { permissions: ['keys:disable'], key: { to: 'enable', states: OPENING, unchanged: ['active'] } },
  // As a destruction that waits does, it can stop every read of old data.
  updateKey: { permissions: ['keys:destroy'], key: { to: 'change what it opens', states: OPENING } },
  destroyKey: {
    permissions: ['keys:destroy'],
    key: {
      to: 'destroy',
      states: ['disabled', 'pending_destruction', 'destroyed'],
      unchanged: ['pending_destruction', 'destroyed'],
    },
  },
  cancelDestruction: {
    permissions: ['keys:destroy'],
    key: { to: 'cancel its destruction', states: ['pending_destruction'] },
  },
  exportKey: { permissions: ['keys:export'], key: { to: 'export', states: OPENING } },
  listAudit: { permissions: ['audit:read'] },
  verifyAudit: { permissions: ['audit:read'] },
  readAuditCheckpoint: { permissions: ['audit:read'] },
  exportAudit: { permissions: ['audit:read'] },
  listApiKeys: { permissions: ['api_keys:read'] },
  createApiKey: { permissions: ['api_keys:manage'] },
  updateApiKey: { permissions: ['api_keys:manage'] },
  revokeApiKey: { permissions: ['api_keys:manage'] },
  getTenant: { permissions: ['keys:read'] },
  getUsage: { permissions: ['audit:read'] },
  getHealth: { permissions: [] },
} as const satisfies Record<OperationId, CallRule>

/** Every call, by its name in `ROUTES`. */
export const CALL_RULES: Readonly<Record<OperationId, CallRule>> = RULES

/** A call on a key, by its `operationId`. */
export type KeyCall = { [Id in OperationId]: (typeof RULES)[Id] extends { key: KeyRule } ? Id : never }[OperationId]

/** The states in which a call on a key is answered. */
export function findKeyRule(call: KeyCall): KeyRule {
  return RULES[call].key
}

/** Finds why a key in this state refuses the call; undefined if it answers. */
export function findStateRefusal(call: KeyCall, status: KeyStatus): { code: ProblemCode; detail: string } | undefined {
  const { to, states } = findKeyRule(call)
  if (states.includes(status)) return undefined
  // A code of its own, so that an application can tell erased data, which no retry and no restored envelope
  // brings back.
  if (status === 'destroyed') return { code: 'E_KEY_DESTROYED', detail: DETAILS.E_KEY_DESTROYED.key }
  return { code: 'E_STATE', detail: DETAILS.E_STATE.key(status, to, states) }
}

/** The codes with which a call on a key may be refused because of the key. */
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

/** The permissions with which a call does anything to a key in this state, each once. */
export function findUsefulPermissions(status: KeyStatus): Permission[] {
  const useful = new Set<Permission>()
  for (const { permissions, key } of Object.values<CallRule>(RULES)) {
    if (!key?.states.includes(status) || key.unchanged?.includes(status)) continue
    for (const permission of permissions) useful.add(permission)
  }
  return [...useful]
}

/**
 * For a permission, another one that allows the same and more. Clients in other languages hash with `encrypt`
 * alone.
 */
const IMPLIED_BY: Partial<Record<Permission, Permission>> = { hash: 'encrypt' }

/**
 * Finds the first permission that is needed and neither held nor implied by one that is held; undefined if
 * there is none.
 */
export function findMissingPermission(
  held: readonly Permission[],
  needed: readonly Permission[],
): Permission | undefined {
  return needed.find((permission) => {
    const implying = IMPLIED_BY[permission]
    return !held.includes(permission) && !(implying !== undefined && held.includes(implying))
  })
}
