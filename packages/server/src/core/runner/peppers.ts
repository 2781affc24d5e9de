/**
 * The peppers by which API keys are found. After a rotation there are two, until each API key in use has a digest under
 * the new one. For a tenant that was moved here, the peppers of its earlier installations also count as former ones.
 */
import type { KeyObject } from 'node:crypto'
import { OpenError } from '@eaas/protocol'
import { equalBytes } from '../audit/formats/chain.js'
import { apiKeyMac, withMac } from '../audit/formats/row-mac.js'
import { apiKeyDigest, apiKeyTenant } from '../crypto/api-key.js'
import { openSecret, type SecretBinding, type StoreKeys, UnknownStoreKeyError } from '../crypto/key-hierarchy.js'
import type { ApiKeyRow } from '../store/api-keys.js'
import type { Queryable, Sql } from '../store/db.js'
import {
  deleteFormerPepper,
  deleteTenantPeppers,
  getPeppers,
  listTenantPeppers,
  renewDigest,
  type TenantPepperRow,
} from '../store/peppers.js'

export type Digest = { digest: string; pepper: number }

/** The number is negative for a pepper of an earlier installation of a tenant. */
type Pepper = { number: number; key: KeyObject }

/** The pepper of new digests comes first, so that a row is found by its newest digest. */
type Accepted = readonly [Pepper, ...Pepper[]]

/** With the bytes from which it was opened, so that it is opened again only if these change. */
type TenantPepper = Pepper & { sealed: Uint8Array }
type OfTenants = ReadonlyMap<string, readonly TenantPepper[] | UnknownStoreKeyError>

/** How many API keys' digests may wait to be written; the others are noted at their next use. */
const MOST_NOTED = 10_000

export class Peppers {
  #accepted: Accepted
  /** by tenant, the peppers of its earlier installations */
  #ofTenants: OfTenants
  /** by API key: the row that was read, and the values to write */
  #noted = new Map<string, { row: ApiKeyRow; next: Digest & { mac: Uint8Array } }>()

  private constructor(
    private readonly sql: Sql,
    accepted: Accepted,
    ofTenants: OfTenants,
  ) {
    this.#accepted = accepted
    this.#ofTenants = ofTenants
  }

  static async open(sql: Sql, storeKeys: StoreKeys): Promise<Peppers> {
    return new Peppers(sql, await openPeppers(sql, storeKeys), await openOfTenants(sql, storeKeys))
  }

  digest(apiKey: string): Digest {
    const [{ number, key }] = this.#accepted
    return { digest: apiKeyDigest(key, apiKey), pepper: number }
  }

  /**
   * The digests by which an API key may be stored, in the order to search for them. @throws UnknownStoreKeyError if a
   * pepper of its tenant does not open
   */
  digests(apiKey: string): Digest[] {
    const former = this.#ofTenants.size > 0 ? this.#ofTenants.get(apiKeyTenant(apiKey) ?? '') : undefined
    if (former instanceof UnknownStoreKeyError) throw former
    const digestOf = ({ number, key }: Pepper) => ({ digest: apiKeyDigest(key, apiKey), pepper: number })
    return [...this.#accepted, ...(former ?? [])].map(digestOf)
  }

  /** Whether an API key whose digest is under this pepper can be found. */
  accepts({ tenant_id, pepper }: Pick<ApiKeyRow, 'tenant_id' | 'pepper'>): boolean {
    return [...this.#accepted, ...listOpened(this.#ofTenants, tenant_id)].some(({ number }) => number === pepper)
  }

  /** If the digest of an admitted API key is under a former pepper, notes it for renewal. */
  noteUse(row: ApiKeyRow, [newest]: readonly Digest[], rowKey: KeyObject): void {
    if (!newest || row.pepper >= newest.pepper || this.#noted.size >= MOST_NOTED) return
    const { mac } = withMac({ ...row, digest: newest.digest }, apiKeyMac, rowKey)
    this.#noted.set(row.api_key_id, { row, next: { ...newest, mac } })
  }

  /** If it fails, the next use of the API key notes it again. */
  async flush(): Promise<void> {
    const noted = this.#noted
    this.#noted = new Map()
    for (const { row, next } of noted.values()) await renewDigest(this.sql, row, next)
  }

  /** Switches to the peppers that are now in the database. @throws OpenError, UnknownStoreKeyError */
  async follow(storeKeys: StoreKeys): Promise<void> {
    this.#accepted = await openPeppers(this.sql, storeKeys)
    this.#ofTenants = await openOfTenants(this.sql, storeKeys, this.#ofTenants)
  }

  /** Deletes each former pepper that no API key needs; `now` is in milliseconds since 1970. */
  async deleteFormer(now: number): Promise<void> {
    if (this.#ofTenants.size > 0) await deleteTenantPeppers(this.sql, now)
    if (this.#accepted.length > 1) await deleteFormerPepper(this.sql, now)
  }
}

/** What a pepper is bound to (key-hierarchy.md 3). The first one has no version, as it is older than versions of peppers. */
export function pepperBinding(number: number): SecretBinding {
  return { purpose: 'api-key-pepper', ...(number > 1 && { version: number }) }
}

export function tenantPepperBinding({ tenant_id, number }: Omit<TenantPepperRow, 'wrapped_pepper'>): SecretBinding {
  return { purpose: 'api-key-pepper', tenant_id, id: tenant_id, version: number }
}

async function openOfTenants(sql: Queryable, storeKeys: StoreKeys, known?: OfTenants): Promise<OfTenants> {
  const opened = new Map<string, readonly TenantPepper[]>()
  const unopened = new Map<string, UnknownStoreKeyError>()
  for (const row of await listTenantPeppers(sql)) {
    const { tenant_id, wrapped_pepper: sealed } = row
    const number = -row.number
    const before = listOpened(known, tenant_id).find(
      (pepper) => pepper.number === number && equalBytes(pepper.sealed, sealed),
    )
    try {
      const pepper = before ?? { number, key: openSecret(storeKeys, tenantPepperBinding(row), sealed), sealed }
      opened.set(tenant_id, [...listOpened(opened, tenant_id), pepper])
    } catch (error) {
      // Stops only its own tenant: the calls of its API keys, or those whose digest is under a tampered pepper.
      if (error instanceof UnknownStoreKeyError) unopened.set(tenant_id, error)
      else if (!(error instanceof OpenError)) throw error
    }
  }
  return new Map<string, readonly TenantPepper[] | UnknownStoreKeyError>([...opened, ...unopened])
}

function listOpened(of: OfTenants | undefined, tenant_id: string): readonly TenantPepper[] {
  const found = of?.get(tenant_id) ?? []
  return found instanceof UnknownStoreKeyError ? [] : found
}

async function openPeppers(sql: Queryable, storeKeys: StoreKeys): Promise<Accepted> {
  const { pepper: number, wrapped_pepper, wrapped_former_pepper, may_digest } = await getPeppers(sql)
  const open = (number: number, sealed: Uint8Array) => ({
    number,
    key: openSecret(storeKeys, pepperBinding(number), sealed),
  })
  const current = open(number, wrapped_pepper)
  if (!wrapped_former_pepper) return [current]
  const former = open(number - 1, wrapped_former_pepper)
  return may_digest ? [current, former] : [former, current]
}
