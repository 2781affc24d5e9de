/** The audit log: lists and verifies its entries, and signs where it ends. None of these calls writes an entry. */
import {
  type Checkpoint,
  CheckpointError,
  OtherSignerError,
  type PublicKeys,
  readCheckpoint,
} from '@eaas/audit/formats'
import { type Action, confirmsGuesses, DETAILS, formsOfUser, type wire } from '@eaas/protocol'
import { LATER_KEY } from '../audit/append-errors.js'
import { followAuditKey } from '../audit/audit-key.js'
import { type AuditKey, allKeys, currentKey, isHeadAuthentic } from '../audit/formats/chain.js'
import { assertListed } from '../audit/listed-entries.js'
import { findAuthenticMark } from '../audit/read-entry.js'
import { findNamedEnd } from '../audit/recorded-tenants.js'
import { deriveContextKey, digestContext } from '../crypto/key-hierarchy.js'
import { assertPermissions } from '../runner/admission.js'
import { assertBudget, ONE_HASH } from '../runner/budgets.js'
import { listSignersOf } from '../runner/installation-key.js'
import type { Context, Operation } from '../runner/operation.js'
import { Refusal } from '../runner/refusal.js'
import type { TenantState } from '../runner/tenant-state.js'
import { assertWaitedFor, whenAdmitted } from '../runner/work-gate.js'
import { findHead } from '../store/audit.js'
import {
  type EntryFilter,
  isSearch,
  type ListedEntry,
  listEntries,
  type Page,
  ScanError,
  type WhenAdmitted,
} from '../store/audit-list.js'
import type { Sql } from '../store/db.js'
import { exportAudit, getHead, signHead } from './audit-export.js'
import { getKey } from './key-use.js'
import { bindRoutes } from './route.js'

/** For calls that read a whole log: enough for some ten million entries. */
const WHOLE_LOG_TIMEOUT_MS = 10 * 60_000

export const auditRoutes = bindRoutes({
  listAudit: {
    summary: 'List audit entries',
    problems: ['E_NOT_FOUND', 'E_BUDGET'],
    operation: ({ query: { limit, offset, order, ...filter }, signal }) =>
      listAudit(filter, { limit, offset, order }, signal?.()),
  },
  verifyAudit: {
    summary: 'Verify the audit log',
    timeoutMs: WHOLE_LOG_TIMEOUT_MS,
    operation: ({ query, signal }) => verifyAudit({ ...query, signal: signal?.() }),
  },
  readAuditCheckpoint: {
    summary: 'Get a signed statement of where the audit log ends',
    operation: () => readAuditCheckpoint(),
  },
  exportAudit: {
    summary: 'Export the audit log as NDJSON that can be verified offline',
    contentType: 'application/x-ndjson',
    timeoutMs: WHOLE_LOG_TIMEOUT_MS,
    operation: ({ query }) => exportAudit(query),
  },
})

/**
 * Lists entries, with the exact number of all that match. A list with any filter of entries is a search: a tenant's
 * searches run one after another, and end when the caller no longer waits.
 * @throws Refusal, OverloadError if too many searches wait, TamperedEntryError
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
        const read: WhenAdmitted = (step) => {
          assertWaitedFor(signal)
          return whenAdmitted(services.readGate, { tenant_id }, step)
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

/** A caller that is limited to keys must name one of them: a search by metadata confirms guesses, as a hash does. */
async function assertMayGuess({ state, caller: { apiKey }, allowances }: Context, key_id?: string): Promise<void> {
  if (apiKey) assertPermissions(apiKey, ['hash'])
  if (apiKey && apiKey.keys !== null) {
    if (key_id === undefined) throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.searchedKey)
    await getKey(state, key_id)
  }
  assertBudget(allowances, 'hash')
}

type Use = Pick<wire.Queries['listAudit'], 'on_behalf_of' | 'purpose' | 'context'>
type Filter = Omit<EntryFilter, 'has'> & Use

/** The members of metadata that state an end user and a use, each by value or by digest (wrapped-key-v2.md 4). */
function membersOf({ auditKey }: TenantState, { on_behalf_of, purpose, context = {} }: Use): string[][] {
  const member = (name: string, value: string) => `${JSON.stringify(name)}:${JSON.stringify(value)}`
  const contextKeys = allKeys(auditKey).map(deriveContextKey)
  const pairs = Object.entries(context).map(([name, value]) => [
    member(`context.${name}`, value),
    ...contextKeys.map((contextKey) => member(`context_hmac.${name}`, digestContext(contextKey, name, value))),
  ])
  const forms = on_behalf_of === undefined ? [] : formsOfUser(on_behalf_of)
  const users = forms.map((user) => member('on_behalf_of', user))
  const purposes = purpose === undefined ? [] : [member('purpose', purpose)]
  return [users, purposes, ...pairs].filter((any) => any.length > 0)
}

export function readAuditCheckpoint(): Operation<wire.Checkpoint> {
  return async (context) => ({ entries: [], release: async () => signHead(context, await getHead(context)) })
}

function tooLong(error: unknown): never {
  if (error instanceof ScanError) throw new Refusal('E_VALIDATION', DETAILS.E_VALIDATION.scan(error.entries))
  throw error
}

// Between two statements, a purge may delete entries, or another server may renew the log's keys. The list is then read
// again, from the mark of the purge or with the new keys.
async function listProven(
  sql: Sql,
  { tenant: { tenant_id }, purged_through, auditKey }: TenantState,
  { filter, page, read }: { filter: EntryFilter; page: Page; read: WhenAdmitted },
): Promise<Awaited<ReturnType<typeof listEntries>>> {
  for (let after = purged_through; ; ) {
    const key = currentKey(auditKey)
    const listed = await listEntries(sql, { tenant_id, purged_through: after }, filter, page, read).catch(tooLong)
    try {
      assertListed(listed.entries, { tenant_id, auditKey, range: listed.range })
      return listed
    } catch (error) {
      await followAuditKey(sql, auditKey)
      const mark = await findAuthenticMark(sql, { tenant_id, auditKey })
      const isPurged = mark !== undefined && mark.purged_through > after
      if (currentKey(auditKey) === key && !isPurged) throw error
      if (isPurged) after = mark.purged_through
    }
  }
}

// Clients also read the version in the metadata. Only the operator sees actions of the installation's log.
function viewEntry({ metadata, hash: _, mac: __, previous_hash: ___, ...entry }: ListedEntry): wire.Entry {
  const stored = metadata === null ? {} : (JSON.parse(metadata) as Record<string, unknown>)
  const { key_version } = entry
  const shown = { ...stored, ...(key_version === null ? {} : { key_version }) }
  return { ...entry, action: entry.action as Action, metadata: shown }
}

type VerifyScope = wire.Queries['verifyAudit'] & {
  /** the keys that may have signed the checkpoint; by default those of the installation */
  signers?: PublicKeys | undefined
  onProgress?: ((entries: number) => void) | undefined
  signal?: AbortSignal | undefined // aborted when no caller waits for the answer
}

/** Verifies the tenant's chain. @throws Refusal E_VALIDATION, E_UNAVAILABLE when too many verifications run */
export function verifyAudit({ checkpoint, signers, signal, ...scope }: VerifyScope): Operation<wire.Verification> {
  return async ({ state, services }) => {
    const { auditKey } = state
    const { tenant_id } = state.tenant
    const readKept = async (note: string) =>
      readKeptCheckpoint(note, tenant_id, signers ?? (await listSignersOf(services, tenant_id)))
    const kept = checkpoint === undefined ? undefined : await readKept(checkpoint)
    const { after_id = null, through_id = null } = scope
    return {
      entries: [],
      freshness: 'as_found',
      async release() {
        await assertStretch(services.sql, { ...scope, tenant_id, auditKey })
        const alarmed = services.committer.guard.lostHead(tenant_id)
        const shared = JSON.stringify([after_id, through_id, checkpoint ?? null, alarmed?.last_id ?? null])
        return services.shareVerification({ tenant_id, scope: shared, signal }, async (gone) => {
          const witnessed = alarmed ?? (await services.findAnchored(services, tenant_id))
          const named = await findNamedEnd(services.sql, tenant_id)
          const options = { ...scope, tenant_id, auditKey, checkpoint: kept, witnessed, named, signal: gone }
          return services.verifyLog(options)
        })
      },
    }
  }
}

// Ignores a forged head, which the verification reports.
async function assertStretch(
  sql: Sql,
  { tenant_id, auditKey, after_id = 0, through_id }: { tenant_id: string; auditKey: AuditKey } & VerifyScope,
): Promise<void> {
  if (through_id !== undefined && after_id >= through_id)
    throw new Refusal('E_VALIDATION', 'through_id must be greater than after_id')
  const head = await findHead(sql, tenant_id)
  if (head && isHeadAuthentic(auditKey, head) && after_id > head.last_id)
    throw new Refusal('E_VALIDATION', `after_id: the log ends at ${head.last_id}`)
}

export function readKeptCheckpoint(note: string, tenant_id: string, signers: PublicKeys): Checkpoint {
  try {
    const kept = readCheckpoint(note, signers)
    if (kept.tenant_id !== tenant_id) throw new CheckpointError('the checkpoint belongs to another tenant')
    return kept
  } catch (error) {
    if (!(error instanceof CheckpointError)) throw error
    const advice = error instanceof OtherSignerError ? `. ${LATER_KEY}` : ''
    throw new Refusal('E_VALIDATION', `checkpoint: ${error.message}${advice}`)
  }
}
