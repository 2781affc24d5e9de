/** /v1/audit and /v1/usage in memory. */
import { encodeHex, encodeUtf8, KEY_BYTES, type wire } from '@eaas/protocol'
import { createHmac } from '../engines/hmac.js'
import { Refusal } from './refusal.js'
import type { Call, State } from './state.js'

/** The calls that this file answers. */
export const auditFakes = { listAudit, verifyAudit, getUsage: readUsage }

function listAudit({ state }: Call, query: wire.Queries['listAudit']): wire.EntryList {
  const { key_id, action, date_from, date_to, after_id = 0, order, offset, limit } = query
  const found = state.entries.filter(
    (entry) =>
      entry.id > after_id &&
      (key_id ?? entry.key_id) === entry.key_id &&
      (action ?? entry.action) === entry.action &&
      (date_from ?? entry.created_at) <= entry.created_at &&
      (date_to ?? entry.created_at) >= entry.created_at,
  )
  const ordered = order === 'asc' ? found : found.reverse()
  const logs = ordered.slice(offset, offset + limit)
  return { logs, count: logs.length, total: found.length, limit, offset }
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
  return { month: asked, operations, unrecorded }
}

// The SDK has an HMAC already, so one under a fixed key serves as the digest.
async function digest({ entries }: State): Promise<string> {
  return encodeHex(await createHmac(new Uint8Array(KEY_BYTES).fill(1))(encodeUtf8(JSON.stringify(entries))))
}
