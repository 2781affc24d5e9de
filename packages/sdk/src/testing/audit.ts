/** /v1/audit and /v1/usage in memory. */
import {
  confirmsGuesses,
  DETAILS,
  encodeHex,
  encodeUtf8,
  formsOfUser,
  KEY_BYTES,
  USUAL_DAYS,
  type wire,
} from '@eaas/protocol'
import { createHmac } from '../engines/web.js'
import { assertPermissions } from './api-keys.js'
import { digestOf } from './secrets.js'
import { type Call, countUnrecorded, daysAfter, maySee, Refusal, type State, timeNow } from './state.js'

/** The calls that this file answers. */
export const auditFakes = { listAudit, verifyAudit, getUsage: readUsage }

function listAudit(call: Call, query: wire.Queries['listAudit']): wire.EntryList {
  const { state } = call
  if (confirmsGuesses(query)) {
    assertPermissions(call.apiKey, ['hash'])
    if (call.apiKey.keys !== null) assertSearchesKey(call, query.key_id)
    countUnrecorded(call, 'hash')
  }
  const { key_id, action, actor, date_from, date_to, after_id = 0, order, offset, limit } = query
  const { on_behalf_of, purpose, context = {} } = query
  const found = state.entries.filter(
    (entry) =>
      entry.id > after_id &&
      (key_id ?? entry.key_id) === entry.key_id &&
      (action ?? entry.action) === entry.action &&
      (actor ?? entry.actor) === entry.actor &&
      (on_behalf_of === undefined || formsOfUser(on_behalf_of).includes(String(entry.metadata.on_behalf_of))) &&
      (purpose ?? entry.metadata.purpose) === entry.metadata.purpose &&
      Object.entries(context).every(([name, value]) => hasPair(entry, name, value)) &&
      (date_from ?? entry.created_at) <= entry.created_at &&
      (date_to ?? entry.created_at) >= entry.created_at,
  )
  const ordered = order === 'asc' ? found : found.reverse()
  const logs = ordered.slice(offset, offset + limit)
  return { logs, count: logs.length, total: found.length, limit, offset }
}

/** @throws Refusal E_VALIDATION, E_NOT_FOUND */
function assertSearchesKey({ state, apiKey }: Call, key_id: string | undefined): void {
  if (key_id === undefined) throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.searchedKey)
  if (state.keys.some((key) => key.key_id === key_id && maySee(apiKey, key))) return
  throw new Refusal('E_NOT_FOUND', DETAILS.E_NOT_FOUND.key)
}

function hasPair({ metadata }: wire.Entry, name: string, value: string): boolean {
  return metadata[`context.${name}`] === value || metadata[`context_hmac.${name}`] === digestOf(name, value)
}

/** The log in memory is always valid; its head has a hash that changes with every entry. */
async function verifyAudit({ state }: Call): Promise<wire.Verification> {
  const { entries } = state
  const last = entries.at(-1)
  if (!last) throw new Refusal('E_INTERNAL', 'the log is empty')
  const head = { id: last.id, hash: await digest(state), created_at: last.created_at }
  const count = entries.length
  return { valid: true, total_entries: count, verified_entries: count, head, purged_through: 0 }
}

function readUsage({ state }: Call, { month }: { month?: string | undefined }): wire.Usage {
  const asked = month ?? new Date(state.now()).toISOString().slice(0, 7)
  const operations: Record<string, number> = {}
  for (const { action, created_at } of state.entries) {
    if (created_at.startsWith(asked)) operations[action] = (operations[action] ?? 0) + 1
  }
  const unrecorded = state.unrecorded.filter(({ day }) => day.startsWith(asked)).sort((a, b) => b.count - a.count)
  return { month: asked, operations, unrecorded, by_api_key: countByApiKey(state) }
}

const nameOf = ({ api_key_id, kind }: { api_key_id: string; kind: string }) => `${api_key_id} ${kind}`

/** As the service counts it: what each API key opened and hashed today, and the median of the days before. */
function countByApiKey(state: State): wire.Usage['by_api_key'] {
  const today = timeNow(state).slice(0, 10)
  const first = daysAfter(timeNow(state), -USUAL_DAYS).slice(0, 10)
  const opened = state.entries
    .filter(({ action }) => action === 'key.unwrap' || action === 'decrypt')
    .map(({ actor, created_at }) => ({ api_key_id: actor, kind: 'unwrap', day: created_at.slice(0, 10), count: 1 }))
  const found = new Map<string, { api_key_id: string; kind: string; days: Map<string, number> }>()
  for (const { api_key_id, kind, day, count } of [...opened, ...state.unrecorded]) {
    if ((kind !== 'unwrap' && kind !== 'hash') || day < first || day > today) continue
    const name = nameOf({ api_key_id, kind })
    const { days } = found.get(name) ?? { days: new Map<string, number>() }
    found.set(name, { api_key_id, kind, days: days.set(day, (days.get(day) ?? 0) + count) })
  }
  return [...found.values()]
    .map(({ days, ...rest }) => {
      const before = [...days].filter(([day]) => day < today).map(([, count]) => count)
      const median = before.sort((a, b) => a - b)[Math.ceil(before.length / 2) - 1] ?? null
      return { ...rest, today: days.get(today) ?? 0, median }
    })
    .sort((a, b) => b.today - a.today || (b.median ?? -1) - (a.median ?? -1) || (nameOf(a) < nameOf(b) ? -1 : 1))
}

// The SDK has an HMAC already, so one under a fixed key serves as the digest.
async function digest({ entries }: State): Promise<string> {
  return encodeHex(await createHmac(new Uint8Array(KEY_BYTES).fill(1))(encodeUtf8(JSON.stringify(entries))))
}
