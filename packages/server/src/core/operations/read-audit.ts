/** Reads the audit log: lists its entries, and signs where it ends. Writes no entry. */
import { type Action, confirmsGuesses, DETAILS, formsOfUser, type WrapContext, type wire } from '@eaas/protocol'
import { followAuditKey } from '../audit/audit-key.js'
import { allKeys } from '../audit/formats/chain.js'
import { assertListed } from '../audit/listed-entries.js'
import { findAuthenticMark } from '../audit/read-entry.js'
import { deriveContextKey, digestContext } from '../crypto/key-hierarchy.js'
import { assertPermissions } from '../runner/admission.js'
import { assertBudget, ONE_HASH } from '../runner/budgets.js'
import type { Context, Operation } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import { assertWaitedFor } from '../runner/search-places.js'
import type { TenantState } from '../runner/tenant-state.js'
import { inTurn } from '../runner/work-gate.js'
import {
  type EntryFilter,
  type InTurn,
  isSearch,
  type ListedEntry,
  listEntries,
  type Page,
  ScanError,
} from '../store/audit-list.js'
import type { Sql } from '../store/db.js'
import { getHead, signHead } from './shared/audit-log.js'
import { getKey } from './shared/key-use.js'

/**
 * Lists entries, newest first unless the page says otherwise, with the exact number of all that match. A filter by
 * actor, end user, purpose or context reads every entry of the range. Any filter of entries makes it a search: a
 * tenant's searches run one after another, and end when the caller no longer waits.
 *
 * @throws Refusal E_MISSING_PERMISSION, E_VALIDATION, E_NOT_FOUND and E_BUDGET if a context is named, E_VALIDATION if
 * the range is too long;
 * OverloadError if too many searches wait
 * @throws TamperedEntryError if an entry of the page is not as the server wrote it
 */
export function listAudit(
  { on_behalf_of, purpose, context, ...filter }: Filter,
  page: Page,
  signal?: AbortSignal,
): Operation<wire.EntryList> {
  return async (calling) => {
    const guessing = confirmsGuesses({ context })
    if (guessing) await assertMayGuess(calling, filter.key_id)
    const { state, services } = calling
    return {
      entries: [],
      ...(guessing && { unrecorded: ONE_HASH }),
      async release() {
        const has = membersOf(state, { on_behalf_of, purpose, context })
        const wanted = { ...filter, has }
        const { tenant_id } = state.tenant
        const read: InTurn = (step) => {
          assertWaitedFor(signal)
          return inTurn(services.readGate, { tenant_id }, step)
        }
        const list = () => listProven(services.sql, state, { filter: wanted, page, read })
        const { entries, total } = await (isSearch(wanted)
          ? services.inSearchPlace({ tenant_id, signal }, list)
          : list())
        const logs = entries.map(viewEntry)
        return { logs, count: logs.length, total, limit: page.limit, offset: page.offset }
      },
    }
  }
}

/**
 * A caller that is limited to keys confirms guesses in the entries of one of these, as it hashes with them alone.
 *
 * @throws Refusal E_MISSING_PERMISSION, E_VALIDATION, E_NOT_FOUND, E_BUDGET
 */
async function assertMayGuess({ state, caller: { apiKey }, allowances }: Context, key_id?: string): Promise<void> {
  if (apiKey) assertPermissions(apiKey, ['hash'])
  if (apiKey && apiKey.keys !== null) {
    if (key_id === undefined) throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.searchedKey)
    await getKey(state, key_id)
  }
  assertBudget(allowances, 'hash')
}

interface Filter extends Omit<EntryFilter, 'has'>, Use {}

interface Use {
  on_behalf_of?: string | undefined
  purpose?: string | undefined
  context?: WrapContext | undefined
}

/** The members that an entry's metadata has for an end user and a use, each with its value or its digests (wrapped-key-v2.md 4). */
function membersOf({ auditKey }: TenantState, { on_behalf_of, purpose, context = {} }: Use): string[][] {
  const member = (name: string, value: string) => `${JSON.stringify(name)}:${JSON.stringify(value)}`
  const contextKeys = allKeys(auditKey).map(deriveContextKey)
  const pairs = Object.entries(context).map(([name, value]) => [
    member(`context.${name}`, value),
    ...contextKeys.map((contextKey) => member(`context_hmac.${name}`, digestContext(contextKey, name, value))),
  ])
  const users =
    on_behalf_of === undefined ? [] : [formsOfUser(on_behalf_of).map((user) => member('on_behalf_of', user))]
  return [...users, ...(purpose === undefined ? [] : [[member('purpose', purpose)]]), ...pairs]
}

/** Signs a statement of where the tenant's log ends now. */
export function readAuditCheckpoint(): Operation<wire.Checkpoint> {
  return async (context) => ({
    entries: [],
    release: async () => signHead(context, await getHead(context)),
  })
}

function tooLong(error: unknown): never {
  if (error instanceof ScanError) throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.scan(error.entries))
  throw error
}

// Between two statements a purge may take entries, and another server may renew the log's keys and write entries
// under them: the list is then read again, from the mark of that purge on or by the new keys.
async function listProven(
  sql: Sql,
  { tenant: { tenant_id }, purged_through, auditKey }: TenantState,
  { filter, page, read }: { filter: EntryFilter; page: Page; read: InTurn },
): Promise<Awaited<ReturnType<typeof listEntries>>> {
  for (let after = purged_through, mayFollow = true; ; mayFollow = false) {
    const listed = await listEntries(sql, { tenant_id, purged_through: after }, filter, page, read).catch(tooLong)
    try {
      assertListed(listed.entries, { tenant_id, auditKey, range: listed.range })
      return listed
    } catch (error) {
      const isRenewed = mayFollow && (await followAuditKey(sql, auditKey))
      const mark = await findAuthenticMark(sql, { tenant_id, auditKey })
      const isPurged = mark !== undefined && mark.purged_through > after
      if (!isRenewed && !isPurged) throw error
      if (isPurged) after = mark.purged_through
    }
  }
}

// Clients read the version in the metadata too. It is stored once, in its column.
// Entries of the installation's log, whose actions no client knows, are shown to its operator only.
function viewEntry({ metadata, hash: _, mac: __, previous_hash: ___, ...entry }: ListedEntry): wire.Entry {
  const stored = metadata === null ? {} : (JSON.parse(metadata) as Record<string, unknown>)
  const { key_version } = entry
  const shown = { ...stored, ...(key_version === null ? {} : { key_version }) }
  return { ...entry, action: entry.action as Action, metadata: shown }
}
