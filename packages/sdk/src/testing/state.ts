/** The state of the service in memory, and its refusals with the codes and messages of the real one. */
import type { Action, ProblemCode } from '@eaas/protocol'
import { encodeHex, PROBLEMS, problemDocument, SYSTEM_ACTOR, wire } from '@eaas/protocol'
import type { ZodMiniType } from 'zod/mini'
import en from 'zod/v4/locales/en.js'
import { random32 } from '../deks/random.js'
import type { Hmac } from '../engines/web.js'

const MS_PER_DAY = 86_400_000
const IP_ADDRESS = '127.0.0.1'

export interface TestKey {
  key_id: string
  name: string
  status: wire.KeyStatus
  created_at: string
  updated_at: string
  interval_days: number | null
  next_rotation_at: string | null
  destroy_at: string | null
  min_unwrap_version: number
  min_unwrap_since: string | null
  /** oldest first; the last one is current */
  versions: { version: number; status: wire.VersionStatus; created_at: string; kek: Uint8Array }[]
  hashKey: Uint8Array
  /** created from the hash key when it is first needed */
  hmac: Hmac | undefined
}

export interface State {
  tenant: wire.Tenant
  apiKey: { id: string; secret: string }
  keys: TestKey[]
  entries: wire.Entry[]
  now: () => number
  destroyWindowDays: number
}

/** One call: its caller, on whose behalf it is, and the id in its path. */
export interface Call {
  state: State
  onBehalfOf: string | undefined
  id: string
  version: string
}

export interface EntryNote {
  action: Action
  key_id?: string
  key_version?: number
  metadata?: Record<string, unknown>
}

/** Writes a call's entry. Returns the entry's time. */
export function note({ state, onBehalfOf }: Call, { metadata, ...entry }: EntryNote): string {
  const all = onBehalfOf === undefined ? metadata : { ...metadata, on_behalf_of: onBehalfOf }
  return append(state, { ...entry, actor: state.apiKey.id, ip_address: IP_ADDRESS, ...(all && { metadata: all }) })
}

/** Writes an entry of the service's own action. Returns the entry's time. */
export function noteAsSystem(state: State, entry: EntryNote): string {
  return append(state, { ...entry, actor: SYSTEM_ACTOR, ip_address: null })
}

function append(state: State, entry: EntryNote & Pick<wire.Entry, 'actor' | 'ip_address'>): string {
  const { action, key_id = null, key_version = null, actor, ip_address, metadata } = entry
  const created_at = new Date(state.now()).toISOString()
  const sorted = Object.fromEntries(Object.entries(metadata ?? {}).sort(([a], [b]) => (a < b ? -1 : 1)))
  const shown = { ...sorted, ...(key_version !== null && { key_version }) }
  const id = state.entries.length + 1
  const { tenant_id } = state.tenant
  state.entries.push({ id, tenant_id, action, key_id, key_version, actor, ip_address, metadata: shown, created_at })
  return created_at
}

export function daysAfter(time: string, days: number): string {
  return new Date(Date.parse(time) + days * MS_PER_DAY).toISOString()
}

/** Makes a random UUID (RFC 9562 section 5.4). `crypto.randomUUID` is missing on pages without TLS. */
export function randomId(): string {
  const bytes = random32().subarray(0, 16)
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80
  return encodeHex(bytes).replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

/** Thrown by the functions that answer calls, and turned into a problem document. */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly code: ProblemCode

  constructor(code: ProblemCode, detail: string) {
    super(detail)
    this.code = code
  }
}

export interface Result {
  status: number
  body: unknown
}

export function refused(error: unknown): Result {
  if (!(error instanceof Refusal)) throw error
  return { status: PROBLEMS[error.code].status, body: problemDocument(error.code, error.message) }
}

// Passed to each parse: zod's global `config` is shared with the application.
const MESSAGES = { error: en().localeError }

export function parse<Value>(schema: ZodMiniType<Value>, input: unknown, otherwise: string): Value {
  const overlong = wire.findOverlong(input)
  if (overlong) throw new Refusal('E_VALIDATION', overlong)
  const result = schema.safeParse(input, MESSAGES)
  if (result.success) return result.data
  throw new Refusal('E_VALIDATION', wire.describeIssue(result.error, otherwise))
}
