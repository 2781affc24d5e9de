/**
 * The peppers by which API keys are found. After a rotation there are two: when an API key is used, its digest is made
 * again under the new one. The former one is deleted once nothing needs it.
 */
import type { KeyObject } from 'node:crypto'
import { apiKeyMac, withMac } from '../audit/formats/row-mac.js'
import { apiKeyDigest } from '../crypto/api-key.js'
import { openSecret, type SecretBinding, type StoreKeys } from '../crypto/key-hierarchy.js'
import type { ApiKeyRow } from '../store/api-keys.js'
import type { Queryable, Sql } from '../store/db.js'
import { deleteFormerPepper, getPeppers, renewDigest } from '../store/peppers.js'

/** An API key's digest, and the number of the pepper that it is under. */
export interface Digest {
  digest: string
  pepper: number
}

interface Pepper {
  number: number
  key: KeyObject
}

/**
 * The peppers to search by: first the one that new digests are made under, so that a row is found by its newest digest.
 */
type Accepted = readonly [Pepper, ...Pepper[]]

/** Most API keys whose digests wait to be written: the others are noted at their next use. */
const MOST_NOTED = 10_000

export class Peppers {
  #accepted: Accepted
  /** by API key: the row that was read, and what to write */
  #noted = new Map<string, { row: ApiKeyRow; next: Digest & { mac: Uint8Array } }>()

  private constructor(
    private readonly sql: Sql,
    accepted: Accepted,
  ) {
    this.#accepted = accepted
  }

  /** Opens the peppers of the installation's row. @throws OpenError, UnknownStoreKeyError */
  static async open(sql: Sql, storeKeys: StoreKeys): Promise<Peppers> {
    return new Peppers(sql, await openPeppers(sql, storeKeys))
  }

  /** The digest of a new API key. */
  digest(apiKey: string): Digest {
    const [{ number, key }] = this.#accepted
    return { digest: apiKeyDigest(key, apiKey), pepper: number }
  }

  /** The digests by which an API key may be stored, in the order in which they are to be searched for. */
  digests(apiKey: string): Digest[] {
    return this.#accepted.map(({ number, key }) => ({ digest: apiKeyDigest(key, apiKey), pepper: number }))
  }

  /** Whether an API key whose digest is under this pepper can be found. */
  accepts(pepper: number): boolean {
    return this.#accepted.some(({ number }) => number === pepper)
  }

  /** Notes that an API key was admitted; its digest is written again if it is under the former pepper. */
  noteUse(row: ApiKeyRow, [newest]: readonly Digest[], rowKey: KeyObject): void {
    if (!newest || row.pepper >= newest.pepper || this.#noted.size >= MOST_NOTED) return
    const { mac } = withMac({ ...row, digest: newest.digest }, apiKeyMac, rowKey)
    this.#noted.set(row.api_key_id, { row, next: { ...newest, mac } })
  }

  /** Writes the digests that were noted. What fails is noted again by the next use. */
  async flush(): Promise<void> {
    const noted = this.#noted
    this.#noted = new Map()
    for (const { row, next } of noted.values()) await renewDigest(this.sql, row, next)
  }

  /** Switches to the peppers that the database has now. @throws OpenError, UnknownStoreKeyError */
  async follow(storeKeys: StoreKeys): Promise<void> {
    this.#accepted = await openPeppers(this.sql, storeKeys)
  }

  /** Deletes the former pepper once no API key needs it; `now` is in milliseconds since 1970. */
  async deleteFormer(now: number): Promise<void> {
    if (this.#accepted.length > 1) await deleteFormerPepper(this.sql, now)
  }
}

/** What a pepper is bound to (key-hierarchy.md 3). The first one has no version: it is from before there could be others. */
export function pepperBinding(number: number): SecretBinding {
  return { purpose: 'api-key-pepper', ...(number > 1 && { version: number }) }
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
