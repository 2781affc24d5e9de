/** API keys: creating, listing, changing and revoking them. */
import { randomUUID } from 'node:crypto'
import {
  DETAILS,
  type HeldPermission,
  loosens,
  MAX_LISTED_API_KEYS,
  type Permission,
  partsOf,
  readBudgets,
  type wire,
  writeBudgets,
} from '@eaas/protocol'
import type { EntryPosition } from '../audit/append/tenant-log.js'
import { apiKeyMac, assertWritten, authentic, withMac } from '../audit/formats/row-mac.js'
import { apiKeyPrefix, generateApiKey } from '../crypto/api-key.js'
import { apiKeyStatus } from '../runner/admission.js'
import { type Caller, type Decision, decision, type Operation, type Services } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import type { TenantState } from '../runner/tenant-state.js'
import {
  type ApiKeyRow,
  insertApiKey,
  listApiKeys as listRows,
  lockDigest,
  updateApiKey as updateRow,
} from '../store/api-keys.js'
import type { Transaction } from '../store/db.js'
import {
  addsKeys,
  assertBudgetHolds,
  assertGrantable,
  assertRoomForOne,
  readAllowedIps,
  readExpiry,
  readKeyList,
  recordGrant,
  recordGrantBefore,
} from './api-key-grants.js'
import type { RowChange } from './key-rows.js'
import { authenticated, type Page, Paged, readPages, whole } from './pages.js'
import { bindRoutes } from './route.js'
import { assertNotDeleted } from './tenant.js'

export const apiKeyRoutes = bindRoutes({
  listApiKeys: { summary: 'List the API keys', operation: ({ query }) => listApiKeysInPages(query) },
  createApiKey: {
    summary: 'Create an API key; its secret is shown once',
    problems: ['E_NOT_FOUND', 'E_LIMIT'],
    action: 'api_key.create',
    operation: ({ body }) => createApiKey(body),
  },
  updateApiKey: {
    summary: 'Change an API key',
    problems: ['E_NOT_FOUND', 'E_STATE', 'E_LIMIT'],
    action: 'api_key.update',
    operation: ({ id, body }) => updateApiKey({ api_key_id: id, changes: body }),
  },
  revokeSelf: {
    summary: 'Revoke the calling API key for good',
    action: 'api_key.revoke',
    operation: () => revokeSelf,
  },
  revokeApiKey: {
    summary: 'Revoke an API key for good',
    problems: ['E_NOT_FOUND'],
    action: 'api_key.revoke',
    operation: ({ id }) => revokeApiKey({ api_key_id: id }),
  },
})

type Grantable = Omit<wire.CreateApiKey, 'permissions'> & { permissions: HeldPermission[] }

/** Creates an API key. @throws Refusal E_STATE, E_VALIDATION, E_MISSING_PERMISSION, E_NOT_FOUND, E_LIMIT */
export function createApiKey({
  name,
  permissions,
  expires_at = null,
  allowed_ips = null,
  keys = null,
  budgets = null,
}: Grantable): Operation<wire.NewApiKey> {
  return async ({ state, caller, services, sql }) => {
    assertNotDeleted(state)
    const given = {
      tenant_id: state.tenant.tenant_id,
      name,
      permissions,
      expires_at: readExpiry(expires_at, services.now()),
      allowed_ips: readAllowedIps(allowed_ips),
      budgets: budgets && writeBudgets(budgets),
    }
    assertBudgetHolds(given)
    assertGrantable(caller, permissions)
    const grant = { ...given, keys: await readKeyList(state, caller, keys) }
    await assertRoomForOne(sql, grant.tenant_id, services.now())
    const { secret, row } = newApiKey(services, grant)
    return decision({
      entries: [{ action: 'api_key.create', metadata: { api_key_id: row.api_key_id, ...recordGrant(row) } }],
      async change(transaction, { entry_id, created_at }) {
        const apiKey: ApiKeyRow = withMac({ ...row, created_at, entry_id }, apiKeyMac, state.rowKey)
        await insertApiKey(transaction, apiKey)
        return { apiKey }
      },
      release: ({ apiKey }) => ({ ...viewApiKey(apiKey, services.now()), secret }),
    })
  }
}

/** Draws the secret of an API key. Makes its row without a MAC, which covers the id of the entry that will record it. */
export function newApiKey(
  { peppers }: Pick<Services, 'peppers'>,
  grant: Pick<ApiKeyRow, 'tenant_id' | 'name' | 'permissions' | 'allowed_ips' | 'keys' | 'budgets' | 'expires_at'>,
): { secret: string; row: Omit<ApiKeyRow, 'created_at' | 'entry_id' | 'mac'> } {
  const secret = generateApiKey(grant.tenant_id)
  return {
    secret,
    row: {
      ...grant,
      permissions: [...new Set(grant.permissions)],
      api_key_id: randomUUID(),
      ...peppers.digest(secret),
      prefix: apiKeyPrefix(secret),
      revoked_at: null,
      last_used_at: null,
    },
  }
}

/** With 256 addresses for each, a page has half a megabyte. */
const PAGE_ROWS = 50

/** Lists all API keys, oldest first, including revoked ones, whose number has no limit. */
export function listApiKeys(): Operation<wire.ApiKeyList> {
  return whole(listApiKeysInPages({ limit: Number.POSITIVE_INFINITY }))
}

/** Lists API keys, oldest first; a caller that is limited to keys gets only API keys that are limited to some of these. */
export function listApiKeysInPages({
  limit = MAX_LISTED_API_KEYS,
  offset = 0,
}: wire.Queries['listApiKeys']): Operation<Paged<wire.ApiKeyList>> {
  return async ({ state, caller, services }) => ({
    entries: [],
    release() {
      const { keys = null } = caller.apiKey ?? {}
      const within = keys === null ? undefined : partsOf(keys)
      const readPage = (page: Page<ApiKeyRow>) => listRows(services.sql, state.tenant.tenant_id, { ...page, within })
      const pages = readPages(
        { limit, offset, pageRows: PAGE_ROWS },
        authenticated({ state, services }, apiKeyMac, readPage),
        (row) => viewApiKey(row, services.committer.clock.latest()),
      )
      return new Paged<wire.ApiKeyList>('api_keys', pages)
    },
  })
}

type Change = { api_key_id: string; changes: wire.UpdateApiKey }

const PEPPER_GONE = 'the API key expired before it took the pepper that replaced its own: create another API key'

/** Updates an API key: an absent field is kept, `null` clears it, a value sets it. */
export function updateApiKey({ api_key_id, changes }: Change): Operation<wire.ApiKey> {
  return async ({ state, caller, services, sql }) => {
    const now = services.now()
    const wanted: Partial<ApiKeyRow> = {
      ...(changes.name === undefined ? {} : { name: changes.name }),
      ...(changes.permissions === undefined ? {} : { permissions: [...new Set(changes.permissions)] }),
      ...(changes.expires_at === undefined ? {} : { expires_at: readExpiry(changes.expires_at, now) }),
      ...(changes.allowed_ips === undefined ? {} : { allowed_ips: readAllowedIps(changes.allowed_ips) }),
      ...(changes.budgets === undefined ? {} : { budgets: changes.budgets && writeBudgets(changes.budgets) }),
    }
    const row = await getApiKey(state, api_key_id, caller)
    if (row.revoked_at !== null) throw new Refusal('E_STATE', DETAILS.E_STATE.apiKey)
    const permissions = wanted.permissions ?? row.permissions
    assertBudgetHolds({ ...row, ...wanted })
    const added = permissions.filter((permission) => !row.permissions.includes(permission))
    assertGrantable(caller, added)
    if (loosens(row, { ...row, ...wanted })) assertGrantable(caller, permissions)
    if (changes.keys !== undefined) {
      wanted.keys = await readKeyList(state, caller, changes.keys)
      // Each permission applies to each key: a caller that adds keys grants every permission on them.
      if (await addsKeys(state, row.keys, wanted.keys)) assertGrantable(caller, permissions)
    }
    const isResumed = wanted.expires_at !== undefined && apiKeyStatus(row, now) === 'expired'
    if (isResumed) {
      if (!services.peppers.accepts(row)) throw new Refusal('E_STATE', PEPPER_GONE)
      await assertRoomForOne(sql, row.tenant_id, now)
    }
    return decision({
      ...recordedChange(state, row, wanted),
      release: ({ apiKey }) => viewApiKey(apiKey, services.now()),
    })
  }
}

function recordedChange({ rowKey }: TenantState, row: ApiKeyRow, changes: Partial<ApiKeyRow>) {
  const changed = { ...row, ...changes }
  const metadata = {
    api_key_id: row.api_key_id,
    replaces: row.entry_id,
    changed: Object.keys(changes).sort().join(' '),
    ...recordGrant(changed),
    ...recordGrantBefore(row, changed),
  }
  return {
    entries: [{ action: 'api_key.update' as const, metadata }],
    change: async (transaction: Transaction, at: EntryPosition) => ({
      apiKey: await writeApiKey(transaction, { row, changes, at, rowKey }),
    }),
  }
}

/**
 * Makes an API key that is over its budget expire now; a person resumes it with another `expires_at`. `row` must come
 * from the state on which the operation decides.
 */
export function expireApiKey(row: ApiKeyRow): Operation<void> {
  return ({ state, services }) => {
    const now = services.now()
    if (apiKeyStatus(row, now) !== 'active') return { entries: [], release: () => undefined }
    const expires_at = new Date(now).toISOString()
    return decision({ ...recordedChange(state, row, { expires_at }), release: () => undefined })
  }
}

/** Revokes an API key for good; for a revoked one, writes no entry. @throws Refusal E_NOT_FOUND */
export function revokeApiKey({ api_key_id }: { api_key_id: string }): Operation<void> {
  return async ({ state, caller }) => revocation(state, await getApiKey(state, api_key_id, caller))
}

/** Revokes the calling API key, whatever keys it is limited to. */
const revokeSelf: Operation<void> = ({ state, caller: { apiKey } }) => {
  if (!apiKey) throw new Error('only an API key revokes itself')
  return revocation(state, apiKey)
}

function revocation({ rowKey }: TenantState, row: ApiKeyRow): Decision<void> {
  if (row.revoked_at !== null) return { entries: [], release: () => undefined }
  return decision({
    entries: [{ action: 'api_key.revoke', metadata: { api_key_id: row.api_key_id, replaces: row.entry_id } }],
    change: async (transaction, at) => ({
      apiKey: await writeApiKey(transaction, { row, changes: { revoked_at: at.created_at }, at, rowKey }),
    }),
    release: () => undefined,
  })
}

/**
 * A caller that is limited to keys finds only API keys that are limited to some of those, and none with an empty list,
 * such as an auditor's. @throws Refusal E_NOT_FOUND, TamperedRowError
 */
export async function getApiKey(
  state: TenantState,
  api_key_id: string,
  { apiKey }: Pick<Caller, 'apiKey'>,
): Promise<ApiKeyRow> {
  const row = await state.findApiKeyById(api_key_id)
  const held = apiKey?.keys ?? null
  const isOfNone = held !== null && row?.keys?.length === 0
  if (!row || isOfNone || (await addsKeys(state, held, row.keys))) {
    throw new Refusal('E_NOT_FOUND', DETAILS.E_NOT_FOUND.apiKey)
  }
  return row
}

/** Writes an API key's changed columns, as `writeKey` does. @throws TamperedRowError if the row is gone */
export async function writeApiKey(
  sql: Transaction,
  { row, changes, at, rowKey }: RowChange<ApiKeyRow>,
): Promise<ApiKeyRow> {
  // The digest may have been renewed under a new pepper; the MAC shows that nothing else changed.
  const digest = await lockDigest(sql, row)
  const current = authentic<ApiKeyRow>({ ...row, ...digest }, apiKeyMac, rowKey)
  const changed = withMac({ ...current, ...changes, entry_id: at.entry_id }, apiKeyMac, rowKey)
  assertWritten(await updateRow(sql, changed), changed)
  return changed
}

/** The API key as the API shows it at a time, in milliseconds since 1970. */
function viewApiKey(row: ApiKeyRow, now: number): wire.ApiKey {
  return {
    id: row.api_key_id,
    name: row.name,
    prefix: row.prefix,
    permissions: row.permissions as Permission[], // only the command shows an operator's
    status: apiKeyStatus(row, now),
    created_at: row.created_at,
    ...(row.expires_at === null ? {} : { expires_at: row.expires_at }),
    ...(row.last_used_at === null ? {} : { last_used_at: row.last_used_at }),
    ...(row.allowed_ips.length === 0 ? {} : { allowed_ips: row.allowed_ips }),
    ...(row.keys === null ? {} : { keys: row.keys }),
    ...(row.budgets === null ? {} : { budgets: readBudgets(row.budgets) }),
  }
}
