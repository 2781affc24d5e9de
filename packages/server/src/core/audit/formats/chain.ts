/** The part of chain.md that needs the audit key: the MACs of the chain, and how the chain is continued. */
import { type KeyObject, timingSafeEqual } from 'node:crypto'
import { type AuditEntry, type ChainedEntry, ENTRY_LABEL, genesisHash, textHash } from '@eaas/audit/formats'
import { encodeHex, encodeUtf8 } from '@eaas/protocol'
import { hmac } from '../../crypto/hmac.js'

const MAC_LABEL = encodeUtf8('eaas/audit/mac/v1')
const HEAD_LABEL = 'eaas/audit/head/v1'
const PURGE_MARK_LABEL = 'eaas/audit/purge-mark/v1'
const ALARM_LABEL = 'eaas/audit/alarm/v1'
/** The number of policy versions between two accepted rollbacks (chain.md 10). */
const POLICY_EPOCH = 2 ** 32

export interface AuditKeys {
  current: KeyObject
  /** the earliest first, each with the last id for which it holds (chain.md 14) */
  former: readonly { through: number; key: KeyObject }[]
}

/** One key, or several, each from an entry on. */
export type AuditKey = KeyObject | AuditKeys

/** The key for everything that is written now: rows, marks and alarms. */
export function currentKey(auditKey: AuditKey): KeyObject {
  return 'former' in auditKey ? auditKey.current : auditKey
}

/** Newest first. */
export function allKeys(auditKey: AuditKey): KeyObject[] {
  return 'former' in auditKey ? [auditKey.current, ...auditKey.former.map(({ key }) => key)] : [auditKey]
}

/** The key of the entry with this id, and of a kept head that ends there. */
function keyAt(auditKey: AuditKey, id: number): KeyObject {
  const former = 'former' in auditKey ? auditKey.former.find(({ through }) => id <= through) : undefined
  return former?.key ?? currentKey(auditKey)
}

/** The first id for which the current key holds: the MAC of that entry proves all earlier entries by their hashes. */
export function firstOfCurrent(auditKey: AuditKey): number {
  return 'former' in auditKey ? (auditKey.former.at(-1)?.through ?? 0) + 1 : 1
}

/** The end of a tenant's chain (chain.md 5). */
export interface Head {
  tenant_id: string
  last_id: number
  hash: Uint8Array
  policy_version: number
  created_at: string
  mac: Uint8Array
}

/** mac_n from h_n (chain.md 3). */
export function entryMac(auditKey: AuditKey, id: number, hash: Uint8Array): Uint8Array {
  return hmac(keyAt(auditKey, id), MAC_LABEL, hash)
}

export function headMac(auditKey: AuditKey, head: Omit<Head, 'mac'>): Uint8Array {
  return headMacUnder(currentKey(auditKey), head)
}

function headMacUnder(key: KeyObject, head: Omit<Head, 'mac'>): Uint8Array {
  const { tenant_id, last_id, hash, policy_version, created_at } = head
  const text = JSON.stringify([HEAD_LABEL, tenant_id, last_id, encodeHex(hash), policy_version, created_at])
  return hmac(key, text)
}

/** Checks under the current key, since a renewal rewrites the head. */
export function isHeadAuthentic(auditKey: AuditKey, head: Head): boolean {
  return equalBytes(head.mac, headMac(auditKey, head))
}

/** Takes the place of the entries that a purge deletes (chain.md 8). */
export interface PurgeMark {
  tenant_id: string
  purged_through: number
  hash: Uint8Array
  entries: number
  cutoff: string
  created_at: string
  previous_mac: Uint8Array
  mac: Uint8Array
}

/** `previous_mac` of the first mark. */
export const NO_MARK_MAC = new Uint8Array(32)

export function purgeMarkMac(auditKey: AuditKey, mark: Omit<PurgeMark, 'mac'>): Uint8Array {
  const { tenant_id, purged_through, hash, entries, cutoff, created_at, previous_mac } = mark
  const text = JSON.stringify([
    PURGE_MARK_LABEL,
    tenant_id,
    purged_through,
    encodeHex(hash),
    entries,
    cutoff,
    created_at,
    encodeHex(previous_mac),
  ])
  return hmac(currentKey(auditKey), text)
}

export function isPurgeMarkAuthentic(auditKey: AuditKey, mark: PurgeMark): boolean {
  return equalBytes(mark.mac, purgeMarkMac(auditKey, mark))
}

/** Also checks that the marks are in order, and that none between two of them is missing. */
export function areMarksAuthentic(auditKey: AuditKey, marks: readonly PurgeMark[]): boolean {
  return marks.every(
    (mark, at) =>
      isPurgeMarkAuthentic(auditKey, mark) && equalBytes(mark.previous_mac, marks[at - 1]?.mac ?? NO_MARK_MAC),
  )
}

/** Where a chain ended when it was seen. */
export type Witness = Pick<Head, 'last_id' | 'hash' | 'policy_version'>

/** A head that was kept outside the database; without time and MAC, its policy version cannot be authenticated. */
export type KeptHead = Witness &
  Partial<Pick<Head, 'created_at' | 'mac'>> & {
    /** for a kept head without a MAC: the last head before it that has one */
    sealed?: KeptHead | undefined
  }

/** Checks under the key of the head's time. */
export function isKeptHeadAuthentic(auditKey: AuditKey, tenant_id: string, kept: KeptHead): boolean {
  const { created_at, mac } = kept
  if (created_at === undefined || mac === undefined) return false
  return equalBytes(mac, headMacUnder(keyAt(auditKey, kept.last_id), { ...kept, tenant_id, created_at }))
}

export type ChainAlarm = Witness & { tenant_id: string; reason: string; raised_at: string; mac: Uint8Array }

export function alarmMac(auditKey: AuditKey, alarm: Omit<ChainAlarm, 'mac'>): Uint8Array {
  const { tenant_id, reason, last_id, hash, policy_version, raised_at } = alarm
  const text = JSON.stringify([ALARM_LABEL, tenant_id, reason, last_id, encodeHex(hash), policy_version, raised_at])
  return hmac(currentKey(auditKey), text)
}

/** The version after an accepted rollback: above every version that lost entries can have had (chain.md 10). */
export function nextPolicyEpoch(policy_version: number): number {
  return (Math.floor(policy_version / POLICY_EPOCH) + 1) * POLICY_EPOCH
}

/** In constant time. */
export function equalBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && timingSafeEqual(a, b)
}

export function genesisHead(auditKey: AuditKey, tenant_id: string, created_at: string): Head {
  return withHeadMac(auditKey, { tenant_id, last_id: 0, hash: genesisHash(tenant_id), policy_version: 1, created_at })
}

/** An entry before the chain gives it its id and time. */
export type EntryDraft = Omit<AuditEntry, 'tenant_id' | 'id' | 'created_at'>

interface ExtendOptions {
  auditKey: AuditKey
  /** milliseconds since 1970; clamped so that time never goes back (chain.md 4) */
  now: number
  policy_version?: number
}

export function extendChain(
  head: Head,
  drafts: readonly EntryDraft[],
  { auditKey, now, policy_version = head.policy_version }: ExtendOptions,
): { entries: ChainedEntry[]; head: Head } {
  const extension = beginExtension(head, { auditKey, now })
  for (const draft of drafts) extension.add(draft)
  return extension.seal(policy_version)
}

export function beginExtension(head: Head, { auditKey, now }: Omit<ExtendOptions, 'policy_version'>) {
  const created_at = laterTime(head.created_at, now)
  const { tenant_id } = head
  let { last_id, hash } = head
  const entries: ChainedEntry[] = []
  // `entryText` in parts: between the calls of one caller on one key, only the id and the metadata differ.
  const before = `${JSON.stringify([ENTRY_LABEL, tenant_id]).slice(0, -1)},`
  const end = `,${JSON.stringify(created_at)}]`
  let middle = ''
  let after = ''
  let last: EntryDraft | undefined
  return {
    // Field by field, since spreading the draft costs more than hashing it.
    add(draft: EntryDraft): ChainedEntry {
      const { action, key_id, key_version, actor, ip_address, metadata } = draft
      const isAlike =
        last?.action === action &&
        last.key_id === key_id &&
        last.key_version === key_version &&
        last.actor === actor &&
        last.ip_address === ip_address
      if (!isAlike) middle = `,${JSON.stringify([action, key_id, key_version, actor, ip_address]).slice(1, -1)},`
      if (!isAlike || metadata !== last?.metadata) after = middle + JSON.stringify(metadata) + end
      last = draft
      const id = ++last_id
      hash = textHash(hash, before + id + after)
      const mac = entryMac(auditKey, id, hash)
      const entry = { tenant_id, id, action, key_id, key_version, actor, ip_address, metadata, created_at, hash, mac }
      entries.push(entry)
      return entry
    },
    seal: (policy_version: number): { entries: ChainedEntry[]; head: Head } => ({
      entries,
      head: withHeadMac(auditKey, { tenant_id, last_id, hash, policy_version, created_at }),
    }),
  }
}

/** `now`, in milliseconds since 1970, or the time of the previous entry if the clock went back (chain.md 4). */
export function laterTime(previous: string, now: number): string {
  const time = new Date(now).toISOString()
  return time > previous ? time : previous // RFC 3339 in UTC with milliseconds sorts as text
}

function withHeadMac(auditKey: AuditKey, head: Omit<Head, 'mac'>): Head {
  return { ...head, mac: headMac(auditKey, head) }
}
