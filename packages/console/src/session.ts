// The signed-in user. Only the client's memory has the API key: never storage, the URL, the history or, after the
// sign-in, the document. Leaving or reloading the page signs out.
import { isUuid, readRecordedName } from '@eaas/protocol'
import { type ApiKeyRecord, type Client, createClient, type Entry, isEaasError, type Key, type Tenant } from '@eaas/sdk'
import { computed, signal } from '@preact/signals'
import { isOperatorsKey, signInAsOperator, signOutOperator } from './operator.js'
import { writeExact } from './time.js'

type Permission = ApiKeyRecord['permissions'][number]

export interface Rights {
  own: ApiKeyRecord | undefined // its record; undefined if it may not list API keys
  /** undefined if only a call would show it */
  may(permission: Permission): boolean | undefined
}

export interface Session {
  eaas: Client
  rights: Rights
  tenant: Tenant | undefined // undefined without keys:read
  /** revokes the API key that a link created for this session; undefined for a pasted one, which others may use */
  revoke: (() => Promise<void>) | undefined
}

export const session = signal<Session | undefined>(undefined)
export const keys = signal<ReadonlyMap<string, Key>>(new Map())
export const isLoadingKeys = signal(false)
export const apiKeys = signal<readonly ApiKeyRecord[]>([])
const loggedNames = signal<ReadonlyMap<string, { name: string; entry_id: number }>>(new Map())
const apiKeyNames = computed(() => new Map(apiKeys.value.map(({ id, name }) => [id, name])))

const PAGE_KEYS = 200 // in one call: parsed in a few milliseconds, so that the page stays responsive

/** Why the API key of the last session was not revoked; undefined if it was, or was meant to stay. */
export const endProblem = signal<Error | undefined>(undefined)

const REVOKE_TIMEOUT_MS = 10_000

const SESSION_MS = 3_600_000 // from the creation of its link
const LINK_USED = 'This link was used, or has expired. Make another one: eaas console --help.'

/** The service that serves this page, with any path prefix of a proxy. */
function findBaseUrl(pathname: string): string {
  return pathname.replace(/\/console\/?$/, '') || '/'
}

/**
 * Signs in, after ending the previous session. `isOfLink`: the API key was created only for this session.
 * @throws EaasError if the service does not know the API key, or cannot be reached
 */
export async function signIn(apiKey: string, { isOfLink } = { isOfLink: false }): Promise<void> {
  const baseUrl = findBaseUrl(location.pathname)
  if (isOperatorsKey(apiKey)) {
    await signInAsOperator(baseUrl, apiKey)
    return endSession()
  }
  const eaas = createClient({ baseUrl, apiKey, retries: 1 })
  const listed = await ifAllowed(eaas.apiKeys.list())
  const tenant = await ifAllowed(eaas.tenant())
  const own = findOwn(listed?.api_keys, apiKey)
  // Without these two, the API key may be one that can only read the log.
  const mayReadLog = own || listed ? undefined : (await ifAllowed(eaas.audit.list({ limit: 1 }))) !== undefined
  const known: Partial<Record<Permission, boolean>> = {
    'api_keys:read': listed !== undefined,
    'keys:read': tenant !== undefined,
    ...(mayReadLog === undefined ? {} : { 'audit:read': mayReadLog }),
  }
  const may = (permission: Permission) => own?.permissions.includes(permission) ?? known[permission]
  signOut()
  apiKeys.value = listed?.api_keys ?? []
  const revoke = isOfLink ? () => revokeSelf(baseUrl, apiKey) : undefined
  session.value = { eaas, tenant, rights: { own, may }, revoke }
  // The page that shows the keys reports the error.
  if (tenant) loadKeys().catch(() => undefined)
}

/** The API key of an opened link that is not yet accepted. Until then, the current session stays. */
export const offeredKey = signal<string | undefined>(undefined)

export interface Offer {
  tenant: Tenant | undefined // undefined without keys:read
  permissions: readonly Permission[] // those of the session
  /**
   * Exchanges the API key of the link for another one, which expires an hour after the link was created. Revokes the
   * former, so that the copy in the browser's history is worthless, then signs in. @throws Error if the link was used
   */
  accept(): Promise<void>
}

/** Reads what a link of `eaas console` signs in to; changes nothing. @throws Error if the link was used */
export async function readLink(apiKey: string): Promise<Offer> {
  const baseUrl = findBaseUrl(location.pathname)
  const eaas = createClient({ baseUrl, apiKey, retries: 1 })
  return ofLink(async () => {
    const own = findOwn((await eaas.apiKeys.list()).api_keys, apiKey)
    if (!own) throw new Error(LINK_USED)
    const tenant = await ifAllowed(eaas.tenant())
    const permissions = own.permissions.filter((permission) => permission !== 'api_keys:manage')
    // By the server's clock, since the browser's may be wrong.
    const expires_at = new Date(Date.parse(own.created_at) + SESSION_MS).toISOString()
    const accept = () =>
      ofLink(async () => {
        const made = await eaas.apiKeys.create({ name: own.name, permissions, expires_at })
        try {
          await eaas.apiKeys.revoke(own.id) // fails if another browser was faster, which then has the session
          await signIn(made.secret, { isOfLink: true })
        } catch (error) {
          endApiKey(made, () => revokeSelf(baseUrl, made.secret))
          throw error
        }
        eaas.close()
        offeredKey.value = undefined
      })
    return { tenant, permissions, accept }
  })
}

async function ofLink<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (isEaasError(error) && error.code === 'E_API' && error.problem === 'E_UNAUTHORIZED') throw new Error(LINK_USED)
    throw error
  }
}

/** Signs out at once, even if the revocation fails, which `endProblem` then reports. */
export function signOut(): void {
  signOutOperator()
  endSession()
}

function endSession(): void {
  const ended = session.value
  if (ended?.revoke) endApiKey(ended.rights.own, ended.revoke)
  ended?.eaas.close()
  session.value = undefined
  keys.value = new Map()
  isLoadingKeys.value = false
  apiKeys.value = []
  loggedNames.value = new Map()
}

/** Revokes the API key of a session that has ended, or failed to begin. */
function endApiKey(own: ApiKeyRecord | undefined, revoke: () => Promise<void>): void {
  endProblem.value = undefined
  revoke().catch((cause: unknown) => {
    endProblem.value = describeEnd(own, cause)
  })
}

/** Revokes an API key with itself, even while the page is being left. An invalid API key needs no revocation. */
async function revokeSelf(baseUrl: string, apiKey: string): Promise<void> {
  const response = await fetch(`${baseUrl.replace(/\/$/, '')}/v1/api-keys/self`, {
    method: 'DELETE',
    headers: { authorization: `Bearer ${apiKey}` },
    keepalive: true,
    redirect: 'error',
    credentials: 'omit',
    signal: AbortSignal.timeout(REVOKE_TIMEOUT_MS),
  })
  if (!response.ok && response.status !== 401) throw new Error(`the server answered ${response.status}`)
}

function describeEnd(own: ApiKeyRecord | undefined, cause: unknown): Error {
  const why = cause instanceof Error ? cause.message : String(cause)
  const until = own?.expires_at === undefined ? '' : ` It works until ${writeExact(own.expires_at, false)}.`
  return new Error(
    `You are signed out here, but the API key of the session was not revoked: ${why}.${until} Revoke it on the server: eaas api-key revoke ${own?.id ?? 'ID'}`,
    { cause },
  )
}

export function client(): Client {
  if (!session.value) throw new Error('nobody is signed in')
  return session.value.eaas
}

/** Whether to show a control. If the permission is unknown, the service decides when the control is used. */
export function mayTry(permission: Permission): boolean {
  return session.value?.rights.may(permission) !== false
}

/** Keys that calls returned since the reading of the list began, since the list may have their earlier state. */
const kept = new Map<string, Key>()

let keysLoad = Promise.resolve()

/** Reads all keys, in pages; the shown list stays until all are read. Concurrent callers share one reading, and its error. */
export async function loadKeys(): Promise<void> {
  const current = session.value
  if (!current) return
  if (!isLoadingKeys.value) keysLoad = readKeys(current)
  return keysLoad
}

async function readKeys(current: Session): Promise<void> {
  isLoadingKeys.value = true
  kept.clear()
  const read = new Map<string, Key>()
  const isFirst = keys.value.size === 0
  try {
    for (;;) {
      const page = await current.eaas.keys.list({ limit: PAGE_KEYS, offset: read.size })
      if (session.value !== current) return
      for (const key of page.keys) read.set(key.id, key)
      const isLast = page.keys.length < PAGE_KEYS
      if (isFirst || isLast) keys.value = new Map([...read, ...kept])
      if (isLast) return
    }
  } finally {
    if (session.value === current) isLoadingKeys.value = false
  }
}

export function keepKey(key: Key): void {
  kept.set(key.id, key)
  keys.value = new Map(keys.value).set(key.id, key)
}

let apiKeyLists = 0

/** Reads all API keys. Of concurrent requests, the latest one counts. */
export async function loadApiKeys(): Promise<void> {
  apiKeyLists += 1
  const asked = apiKeyLists
  const { api_keys } = await client().apiKeys.list()
  if (asked === apiKeyLists) apiKeys.value = api_keys
}

/**
 * Returns the id of the key with this name if the list of keys has it, otherwise the text itself. Callers who may
 * create keys choose names, and one may look like a key's id or a folder, so such texts are never read as names.
 */
export function findKeyId(text: string): string {
  if (isUuid(text) || text.endsWith('/*')) return text
  return [...keys.value.values()].find(({ name }) => name === text)?.id ?? text
}

export function nameOf(id: string): string | undefined {
  return keys.value.get(id)?.name ?? apiKeyNames.value.get(id) ?? loggedNames.value.get(id)?.name
}

/** Learns names from entries of the log, for users who may read only that; the newest entry counts. */
export function learnNames(entries: readonly Entry[]): void {
  const learned = new Map<string, { name: string; entry_id: number }>()
  for (const entry of entries) {
    const [id, name] = readRecordedName(entry, () => entry.metadata) ?? []
    if (id === undefined || name === undefined) continue
    const known = learned.get(id) ?? loggedNames.value.get(id)
    if ((known?.entry_id ?? 0) < entry.id) learned.set(id, { name, entry_id: entry.id })
  }
  // Otherwise each shown name would be rendered again.
  if (learned.size > 0) loggedNames.value = new Map([...loggedNames.value, ...learned])
}

async function ifAllowed<T>(call: Promise<T>): Promise<T | undefined> {
  try {
    return await call
  } catch (error) {
    if (isEaasError(error) && error.code === 'E_API' && error.problem === 'E_MISSING_PERMISSION') return undefined
    throw error
  }
}

/** Finds the record of the API key by its prefix; undefined if two records have the same prefix. */
function findOwn(list: readonly ApiKeyRecord[] | undefined, apiKey: string): ApiKeyRecord | undefined {
  const found = list?.filter(({ prefix, status }) => apiKey.startsWith(prefix) && status === 'active') ?? []
  return found.length === 1 ? found[0] : undefined
}
