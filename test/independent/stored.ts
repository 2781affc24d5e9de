// What tables hold of a tenant, read and opened by chain.md, key-hierarchy.md and wrapped-key.md alone. Like the checker and the
// verifier beside it, it imports nothing of the project.
import { createDecipheriv, createHash, createHmac, timingSafeEqual } from 'node:crypto'
import type postgres from 'postgres'

export type Queryable = postgres.Sql | postgres.TransactionSql

const PAGE = 2_000

/** An entry as it stands in the table, times as RFC 3339 text, bytes as they are. */
export interface Entry {
  tenant_id: string
  id: number
  action: string
  key_id: string | null
  key_version: number | null
  actor: string
  ip_address: string | null
  metadata: string | null
  created_at: string
  hash: Buffer
  mac: Buffer
}

/** A key that a log had before, and the last id that it holds for (chain.md 14). */
export interface FormerKey {
  through: number
  key: Buffer
}

/** The key of a log, and those before it, the earliest first. */
export interface LogKeys {
  auditKey: Buffer
  former?: readonly FormerKey[]
}

/** The key of an entry. */
export function keyAt({ auditKey, former = [] }: LogKeys, id: number): Buffer {
  return former.find(({ through }) => id <= through)?.key ?? auditKey
}

/** The entries of a tenant after an id, in order, a page at a time. */
export async function* entriesOf(sql: Queryable, tenant_id: string, after_id = 0): AsyncGenerator<Entry> {
  let after = after_id
  for (;;) {
    // Ordered by the column: plain `id` would be the text that is selected.
    const page = await sql`
      select tenant_id::text, id::text, action, key_id::text, key_version, actor, ip_address, metadata,
             ${time(sql, 'created_at')}, encode(hash, 'hex') as hash, encode(mac, 'hex') as mac
      from audit_log where tenant_id = ${tenant_id} and id > ${after}
      order by audit_log.id limit ${PAGE}`
    for (const row of page) {
      after = Number(row.id)
      yield {
        tenant_id: row.tenant_id,
        id: after,
        action: row.action,
        key_id: row.key_id,
        key_version: row.key_version,
        actor: row.actor,
        ip_address: row.ip_address,
        metadata: row.metadata,
        created_at: milliseconds(row.created_at),
        hash: Buffer.from(row.hash, 'hex'),
        mac: Buffer.from(row.mac, 'hex'),
      }
    }
    if (page.length < PAGE) return
  }
}

/** Where a sealed secret belongs (key-hierarchy.md 3). */
export interface Place {
  purpose: 'audit-key' | 'kek' | 'hash-key'
  tenant_id: string
  id?: string
  version?: number
}

/** Opens the store keys with the root key (key-hierarchy.md 1). @throws when one is not authentic */
export async function openStoreKeys(sql: Queryable, rootKey: Buffer): Promise<Map<number, Buffer>> {
  const rows = await sql`select number, encode(wrapped, 'hex') as wrapped from store_keys`
  return new Map(
    rows.map((row) => {
      const wrapped = Buffer.from(row.wrapped, 'hex')
      const numbered = openAead(rootKey, wrapped.subarray(1), Buffer.from('eaas/root-key/v1'))
      if (wrapped[0] !== 1 || numbered.length !== 36 || numbered.readUInt32BE() !== row.number) {
        throw new Error(`store key ${row.number} is not authentic`)
      }
      return [row.number, numbered.subarray(4)]
    }),
  )
}

/** Opens a sealed secret (key-hierarchy.md 2 and 3). @throws when it is not authentic */
export function openSecret(
  storeKeys: ReadonlyMap<number, Buffer>,
  { purpose, tenant_id, id = '', version = 0 }: Place,
  sealed: Buffer,
) {
  const number = sealed.readUInt32BE(1)
  const storeKey = storeKeys.get(number)
  if (sealed.length !== 65 || sealed[0] !== 2 || !storeKey)
    throw new Error(`sealed secret: format ${sealed[0]}, store key ${number}`)
  const aad = prefixed('eaas/secret/v2', purpose, tenant_id, id, String(version), String(number))
  return openAead(storeKey, sealed.subarray(5), aad)
}

/** A tenant's audit key, from its row and the root key. */
export async function openAuditKey(sql: Queryable, rootKey: Buffer, tenant_id: string): Promise<Buffer> {
  return (await openLogKeys(sql, rootKey, tenant_id)).auditKey
}

/** A tenant's audit key and those before it. */
export async function openLogKeys(sql: Queryable, rootKey: Buffer, tenant_id: string): Promise<Required<LogKeys>> {
  const [row] = await sql`
    select encode(wrapped_audit_key, 'hex') as sealed from tenants where tenant_id = ${tenant_id}`
  if (!row) throw new Error(`no tenant ${tenant_id}`)
  return openLogSecrets(await openStoreKeys(sql, rootKey), tenant_id, Buffer.from(row.sealed, 'hex'))
}

/** Opens the audit key, and each earlier one with the last id that it holds for (key-hierarchy.md 8). @throws when one is not authentic */
export function openLogSecrets(
  storeKeys: ReadonlyMap<number, Buffer>,
  tenant_id: string,
  sealed: Buffer,
): Required<LogKeys> {
  const place = { purpose: 'audit-key', tenant_id } as const
  const former: FormerKey[] = []
  for (let at = 65; at < sealed.length; at += 73) {
    const through = Number(sealed.readBigUInt64BE(at))
    const key = openSecret(storeKeys, { ...place, version: through }, sealed.subarray(at + 8, at + 73))
    former.push({ through, key })
  }
  return { auditKey: openSecret(storeKeys, place, sealed.subarray(0, 65)), former }
}

/** The KEKs of a tenant's key versions, as `key_id version`. */
export async function openKeks(sql: Queryable, rootKey: Buffer, tenant_id: string): Promise<Map<string, Buffer>> {
  const rows = await sql`
    select key_id::text, version, encode(wrapped_kek, 'hex') as sealed from key_versions
    where tenant_id = ${tenant_id} and wrapped_kek is not null`
  const storeKeys = await openStoreKeys(sql, rootKey)
  return new Map(
    rows.map(({ key_id, version, sealed }) => [
      `${key_id} ${version}`,
      openSecret(storeKeys, { purpose: 'kek', tenant_id, id: key_id, version }, Buffer.from(sealed, 'hex')),
    ]),
  )
}

/**
 * Unwraps a wrapped key (wrapped-key.md) with the KEKs of `openKeks`: the DEK in base64, or undefined where it does not
 * open as this tenant's and this key's.
 */
export function opens(
  wrapped_key: string,
  { keks, tenant_id, key_id }: { keks: ReadonlyMap<string, Buffer>; tenant_id: string; key_id: string },
): string | undefined {
  const token = Buffer.from(wrapped_key, 'base64')
  if (token.length !== 65 || token[0] !== 1 || token.toString('base64') !== wrapped_key) return undefined
  const version = token.subarray(1, 5)
  const kek = keks.get(`${key_id} ${version.readUInt32BE()}`)
  if (!kek) return undefined
  const aad = prefixed('eaas/wrapped-key/v1', uuidBytes(tenant_id), uuidBytes(key_id), version)
  try {
    return openAead(kek, token.subarray(5), aad).toString('base64')
  } catch {
    return undefined // not authentic: that is the answer
  }
}

function openAead(key: Buffer, sealed: Buffer, aad: Buffer): Buffer {
  const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, 12), { authTagLength: 16 })
  decipher.setAAD(aad)
  decipher.setAuthTag(sealed.subarray(-16))
  return Buffer.concat([decipher.update(sealed.subarray(12, -16)), decipher.final()])
}

/** The strings, each with its length as u32 big-endian in front. */
function prefixed(...parts: (string | Buffer)[]): Buffer {
  return Buffer.concat(
    parts.flatMap((part) => {
      const bytes = Buffer.from(part as string)
      const length = Buffer.alloc(4)
      length.writeUInt32BE(bytes.length)
      return [length, bytes]
    }),
  )
}

function uuidBytes(uuid: string): Buffer {
  return Buffer.from(uuid.replaceAll('-', ''), 'hex')
}

export function sha256(...parts: (string | Buffer)[]): Buffer {
  return parts.reduce((hash, part) => hash.update(part), createHash('sha256')).digest()
}

export function hmac(key: Buffer, ...parts: (string | Buffer)[]): Buffer {
  return parts.reduce((mac, part) => mac.update(part), createHmac('sha256', key)).digest()
}

export function same(a: Buffer, b: Buffer): boolean {
  return a.length === b.length && timingSafeEqual(a, b)
}

/** RFC 3339 with milliseconds, from microseconds: any that are not zero stay, and so never match what was signed. */
export function milliseconds(text: string): string {
  return text.replace(/000Z$/, 'Z')
}

/** `infinity` has no such form, and is shown as it is. */
export function time(sql: Queryable, column: string) {
  return sql`coalesce(to_char(${sql(column)} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), ${sql(column)}::text) as ${sql(column)}`
}
