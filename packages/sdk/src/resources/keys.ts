/** A tenant's keys, `/v1/keys`, by id and by name, and the checks of arguments that other resources share. */
import {
  isUuid,
  isWellFormed,
  MAX_BATCH_OPERATIONS,
  MAX_KEY_VERSIONS,
  MAX_NAME_CHARACTERS,
  MAX_ROTATION_DAYS,
  type wire,
} from '@eaas/protocol'
import { ApiError, type EaasError, InvalidInputError, isEaasError } from '../errors.js'
import { type Http, toCall } from '../http/calls.js'
import { assertKeyId, assertOptions, assertWhole, isoText, isValidDate, kindOf, readSignal } from '../input.js'
import type { KeyLookup } from '../records/blocks.js'

export type Key = wire.Key
export type KeyWithVersions = wire.KeyWithVersions
export type KeyList = wire.KeyList
export type KeyStatus = wire.KeyStatus
export type KeyExport = wire.KeyExport

export interface CallOptions {
  /** Aborts the call, which then throws `AbortedError`. */
  signal?: AbortSignal | undefined
}

export interface ListKeysOptions extends CallOptions {
  /** Only keys of this status. */
  status?: KeyStatus | undefined
  /** Only the key of this name. */
  name?: string | undefined
  /** The most keys; all by default. */
  limit?: number | undefined
  /** How many keys to skip first. */
  offset?: number | undefined
}

/** The created keys, in the given order, and those that failed, by their index in the list. */
export interface CreatedKeys {
  ok: Key[]
  failed: { index: number; error: EaasError }[]
}

/**
 * The keys of a tenant. Each call is one request, and throws the errors that `Client` names. The client never repeats a
 * change: after an `E_NETWORK` or `E_TIMEOUT`, check with `get` or `list({ name })` whether it was made.
 */
export interface Keys {
  /** Creates a key with a unique name of 1 to 255 characters. Needs `keys:create`. If the name is taken: `E_API` with status 409. */
  create(key: { name: string }, options?: CallOptions): Promise<Key>
  /**
   * Creates 1 to 1,000 keys in one request, such as one for each person whose data must be erasable. Needs
   * `keys:create`; one audit entry for each. A taken name fails only its own key, with `E_API` and `problem:
   * 'E_NAME_TAKEN'`. All others are created together or, if the call throws, none. After an `E_NETWORK` or `E_TIMEOUT`,
   * check with `list` whether they were created.
   * @throws InvalidInputError naming the first invalid name, before the network is used
   * @example
   * ```ts
   * const { ok, failed } = await eaas.keys.createMany([{ name: 'person 7f3a' }, { name: 'person 91c0' }])
   * ```
   */
  createMany(keys: readonly { name: string }[], options?: CallOptions): Promise<CreatedKeys>
  /**
   * Gets the active key of a name, or creates it if there is none. Call it whenever a program starts: any number of
   * processes may do so at once, and all get the same key. One request if the key exists, two if it is created. May be
   * called again after any error. Needs the permission `keys:read`, and `keys:create` if the key does not exist. If the
   * key is disabled, waits for its destruction or is destroyed: `E_API` with `problem: 'E_STATE'`.
   * @param key.name 1 to 255 characters, unique in the tenant
   * @example
   * ```ts
   * const { id: keyId } = await eaas.keys.ensure({ name: 'users' })
   * ```
   */
  ensure(key: { name: string }, options?: CallOptions): Promise<Key>
  /** Lists keys, `{ keys, count }`. Needs `keys:read`. */
  list(options?: ListKeysOptions): Promise<KeyList>
  /** Gets one key with its versions. Needs `keys:read`. If it does not exist: `E_API` with status 404. */
  get(keyId: string, options?: CallOptions): Promise<KeyWithVersions>
  /**
   * Rotates a key: new DEKs are wrapped under a new version, and data sealed before still opens. Needs `keys:rotate`.
   * If the key is not active, or has 100 versions or more, 60 of them from the last hour: `E_API` with status 409.
   */
  rotate(keyId: string, options?: CallOptions): Promise<Key>
  /** Has the service rotate a key every `interval_days` days, 1 to 3,650; `null` ends that. Needs `keys:rotate`. */
  setRotation(keyId: string, interval_days: number | null, options?: CallOptions): Promise<Key>
  /**
   * Sets the oldest version of a key that still opens, 1 to the current one. Wrapped keys of older versions are refused
   * with `E_VERSION_TOO_OLD`, so rewrap them first. It may be lowered again. Clients use a DEK that they already have
   * until its age limit. Needs `keys:destroy`.
   */
  update(keyId: string, changes: { min_unwrap_version: number }, options?: CallOptions): Promise<Key>
  /** Disables a key: it still opens, but neither seals nor wraps. Needs `keys:disable`. */
  disable(keyId: string, options?: CallOptions): Promise<void>
  /** Enables a disabled key. Needs `keys:disable`. */
  enable(keyId: string, options?: CallOptions): Promise<Key>
  /**
   * Schedules the destruction of a disabled key. After the service's waiting period (`destroy_at`), the data that it
   * protects can never be opened again. Needs `keys:destroy`.
   * @param confirm the key's name, so that nobody destroys the wrong one
   */
  destroy(keyId: string, confirm: string, options?: CallOptions): Promise<Key>
  /** Cancels a destruction that is still waiting; the key is disabled again. Needs `keys:destroy`. */
  cancelDestruction(keyId: string, options?: CallOptions): Promise<Key>
  /**
   * Destroys a version of a key for good: what it wrapped can never be opened again. It must be the oldest one left,
   * and closed for the service's waiting period: to close it, set `min_unwrap_version` above it with `update`.
   * Otherwise throws `E_API` with status 409, whose message says what to do first, or when it will be possible. Needs
   * `keys:destroy`.
   * @param version 1 or more
   * @param confirm the key's name, so that nobody destroys a version of the wrong one
   */
  destroyVersion(keyId: string, version: number, confirm: string, options?: CallOptions): Promise<Key>
  /** For `openExport` of `@eaas/sdk/offline`. Anyone who has the export can open all of the key's data, for ever. Needs `keys:export`. */
  export(keyId: string, options?: CallOptions): Promise<KeyExport>
}

export default function createKeys(http: Http): Keys {
  const about = (name: keyof Keys, keyId: string, options: CallOptions | undefined) => {
    const signal = readSignal(`keys.${name}()`, options)
    assertKeyId(keyId)
    return { id: keyId, signal }
  }
  const keys: Keys = {
    async create(key, options) {
      const signal = readSignal('keys.create()', options)
      assertOptions('keys.create()', key, ['name'])
      assertName(key.name)
      return http(toCall('createKey', { body: { name: key.name }, signal }))
    },
    async createMany(list, options) {
      const signal = readSignal('keys.createMany()', options)
      return createManyKeys(http, list, signal)
    },
    async ensure(key, options) {
      readSignal('keys.ensure()', options)
      assertOptions('keys.ensure()', key, ['name'])
      assertName(key.name)
      return ensureKey(keys, key.name, options ?? {})
    },
    async list(options = {}) {
      assertOptions('keys.list()', options, ['status', 'name', 'limit', 'offset', 'signal'])
      const { status, name, limit, offset, signal } = options
      assertPage(limit, offset)
      return http(toCall('listKeys', { query: { status, name, limit, offset }, signal }))
    },
    get: async (keyId, options) => http(toCall('getKey', about('get', keyId, options))),
    rotate: async (keyId, options) => http(toCall('rotateKey', about('rotate', keyId, options))),
    async setRotation(keyId, interval_days, options) {
      const key = about('setRotation', keyId, options)
      if (interval_days !== null) assertWhole('interval_days', interval_days, 1, MAX_ROTATION_DAYS)
      return http(toCall('setRotation', { ...key, body: { interval_days } }))
    },
    async update(keyId, changes, options) {
      const key = about('update', keyId, options)
      const min_unwrap_version = changes?.min_unwrap_version
      assertWhole('min_unwrap_version', min_unwrap_version, 1, MAX_KEY_VERSIONS)
      return http(toCall('updateKey', { ...key, body: { min_unwrap_version } }))
    },
    disable: async (keyId, options) => http(toCall('disableKey', about('disable', keyId, options))),
    enable: async (keyId, options) => http(toCall('enableKey', about('enable', keyId, options))),
    async destroy(keyId, confirm, options) {
      assertConfirm(confirm, 'second')
      return http(toCall('destroyKey', { ...about('destroy', keyId, options), body: { confirm } }))
    },
    cancelDestruction: async (keyId, options) =>
      http(toCall('cancelDestruction', about('cancelDestruction', keyId, options))),
    async destroyVersion(keyId, version, confirm, options) {
      assertWhole('version', version, 1, MAX_KEY_VERSIONS)
      assertConfirm(confirm, 'third')
      const call = { ...about('destroyVersion', keyId, options), version, body: { confirm } }
      return http(toCall('destroyVersion', call))
    },
    export: async (keyId, options) => http(toCall('exportKey', about('export', keyId, options))),
  }
  return keys
}

function assertConfirm(confirm: unknown, argument: 'second' | 'third'): void {
  const hint = `Pass the key's name as the ${argument} argument, so that nobody destroys the wrong one.`
  assertName(confirm, 'confirm', hint)
}

async function createManyKeys(
  http: Http,
  list: readonly { name: string }[],
  signal: AbortSignal | undefined,
): Promise<CreatedKeys> {
  if (!Array.isArray(list) || list.length === 0 || list.length > MAX_BATCH_OPERATIONS) {
    const got = Array.isArray(list) ? `${list.length}` : kindOf(list)
    const message = `keys must be an array of 1 to ${MAX_BATCH_OPERATIONS}, got ${got}`
    throw new InvalidInputError(message, 'Create more by other calls.')
  }
  const keys = Array.from(list as readonly { name: string }[], (key, index) => {
    assertOptions(`keys.${index}`, key, ['name'])
    assertName(key.name, `keys.${index}.name`)
    return { name: key.name }
  })
  const parts = keys.map((body) => toCall('createKey', { body }))
  const outcomes = await http(toCall('createKeys', { body: { keys }, parts, signal }))
  const created: CreatedKeys = { ok: [], failed: [] }
  for (const [index, outcome] of outcomes.entries()) {
    // send.ts parsed the value as this part's answer, and catches only errors of the SDK.
    if ('value' in outcome) created.ok.push(outcome.value as Key)
    else created.failed.push({ index, error: outcome.error as EaasError })
  }
  return created
}

const REMEDIES: Record<Exclude<KeyStatus, 'active'>, string> = {
  disabled: 'Enable it with eaas.keys.enable(), or choose another name.',
  pending_destruction: 'Call keys.cancelDestruction() and keys.enable(), or choose another name.',
  destroyed: 'Choose another name: names are never reused.',
}

async function ensureKey(keys: Keys, name: string, { signal }: CallOptions): Promise<Key> {
  const found = await findKey(keys, name, signal)
  if (found) return active(found)
  try {
    return await keys.create({ name }, { signal })
  } catch (error) {
    if (!isRefused(error, 'E_NAME_TAKEN')) return explainRights(error, `No key is named ${JSON.stringify(name)}. `)
    const createdMeanwhile = await findKey(keys, name, signal) // another process created it between the two requests
    if (createdMeanwhile) return active(createdMeanwhile)
    throw error
  }
}

/** Gets the key of a name, whatever its status; undefined if there is none. @throws what `list` throws */
async function findKey({ list }: Keys, name: string, signal?: AbortSignal): Promise<Key | undefined> {
  const { keys } = await list({ name, signal }).catch((error) => explainRights(error))
  return keys.find((key) => key.name === name)
}

function active(key: Key): Key {
  const { id, status } = key
  if (status === 'active') return key
  const detail = `the key of this name, ${id}, must be active, and is ${status}`
  const refused = { httpStatus: 409, title: 'Conflict', detail, problem: 'E_STATE', requestId: undefined } as const
  throw new ApiError('keys.ensure()', refused, REMEDIES[status], false)
}

function explainRights(error: unknown, found = ''): never {
  if (!isRefused(error, 'E_MISSING_PERMISSION')) throw error
  const hint = `${found}Pass the id of the key, or grant keys:read, and keys:create where the key may be missing.`
  throw Object.assign(error, { hint })
}

function isRefused(error: unknown, problem: string): error is ApiError {
  return isEaasError(error) && error.code === 'E_API' && error.problem === problem
}

export function createKeyLookup(http: Http): KeyLookup {
  const keys = createKeys(http)
  return {
    getKey: (keyId, signal) => keys.get(keyId, { signal }),
    findKey: async (name) => (await findKey(keys, name))?.id,
    ensureKey: async (name) => (await keys.ensure({ name })).id,
  }
}

export function assertName(name: unknown, option = 'name', hint?: string): asserts name is string {
  if (typeof name !== 'string' || name === '' || [...name].length > MAX_NAME_CHARACTERS)
    throw new InvalidInputError(`${option} must be text of 1 to ${MAX_NAME_CHARACTERS} characters`, hint)
  if (!isWellFormed(name) || name.includes('\0'))
    throw new InvalidInputError(`${option} must not contain a NUL or a lone surrogate`)
}

export function assertId(id: unknown, option = 'id'): asserts id is string {
  if (typeof id === 'string' && isUuid(id)) return
  throw new InvalidInputError(`${option} must be a UUID, lower case, with dashes`)
}

export function assertPage(limit: unknown, offset: unknown): void {
  if (limit !== undefined) assertWhole('limit', limit, 1)
  if (offset !== undefined) assertWhole('offset', offset, 0)
}

export function readTime(value: string | Date, name: string): string {
  if (typeof value === 'string') return value
  if (!isValidDate(value)) throw new InvalidInputError(`${name} must be text or a valid Date`)
  return isoText(value)
}
