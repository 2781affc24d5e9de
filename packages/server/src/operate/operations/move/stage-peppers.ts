/** Writes the peppers of a tenant's API keys to another installation, before the tenant arrives there. */
import { OpenError } from '@eaas/protocol'
import { equalBytes } from '../../../core/audit/formats/chain.js'
import { moveSecret, openSecret, type SecretBinding } from '../../../core/crypto/key-hierarchy.js'
import type { Services } from '../../../core/runner/operation.js'
import { pepperBinding, tenantPepperBinding } from '../../../core/runner/peppers.js'
import { Refusal } from '../../../core/runner/refusal.js'
import type { Transaction } from '../../../core/store/db.js'
import { getPeppers, listTenantPeppers, type TenantPepperRow } from '../../../core/store/peppers.js'
import { lockPeppersOf, replacePeppersOf } from '../../store/moved-rows.js'
import type { Move } from './copy-log.js'
import type { Arriving } from './write-arrival.js'

/** The number there of each pepper of the source, and the rows. */
export type StagedPeppers = { numbers: ReadonlyMap<number, number>; rows: readonly TenantPepperRow[] }

/**
 * Writes the peppers of the API keys' digests there, unless they are there.
 * @param before what this command has staged, if it did
 * @throws Refusal E_STATE if these rows are gone, as after an undo, which also deleted the copies
 */
export async function stagePeppers(move: Move, before?: StagedPeppers): Promise<StagedPeppers> {
  const wanted = await listPeppers(move.from, move.tenant_id)
  return move.to.sql.begin((there) => stageThere(move, there, { wanted, before }))
}

async function stageThere(
  { from, to, tenant_id }: Move,
  there: Transaction,
  { wanted, before }: { wanted: Awaited<ReturnType<typeof listPeppers>>; before: StagedPeppers | undefined },
): Promise<StagedPeppers> {
  const staged = await lockPeppersOf(there, tenant_id)
  if (before && !areSame(before.rows, staged)) throw notStaged()
  const isStaged = ({ number, binding, sealed }: (typeof wanted)[number], at: number) => {
    const row = staged[at]
    if (row?.number !== number) return false
    try {
      return openSecret(to.storeKeys, tenantPepperBinding(row), row.wrapped_pepper).equals(
        openSecret(from.storeKeys, binding, sealed),
      )
    } catch (error) {
      if (error instanceof OpenError) return false
      throw error
    }
  }
  const numbers = new Map(wanted.map(({ pepper, number }) => [pepper, number]))
  if (staged.length === wanted.length && wanted.every(isStaged)) return { numbers, rows: staged }
  const rows = wanted.map(({ number, binding, sealed }): TenantPepperRow => {
    const next = tenantPepperBinding({ tenant_id, number })
    return {
      tenant_id,
      number,
      wrapped_pepper: moveSecret({ from: from.storeKeys, to: to.storeKeys }, binding, sealed, next),
    }
  })
  await replacePeppersOf(there, tenant_id, rows)
  return { numbers, rows }
}

/** The peppers of a tenant's API keys, those of earlier installations first, each with its number there. */
async function listPeppers(
  { sql }: Services,
  tenant_id: string,
): Promise<{ pepper: number; number: number; binding: SecretBinding; sealed: Uint8Array }[]> {
  const earlier = await listTenantPeppers(sql, tenant_id)
  const { pepper, wrapped_pepper, wrapped_former_pepper } = await getPeppers(sql)
  const next = (earlier.at(-1)?.number ?? 0) + 1
  const own = [
    ...(wrapped_former_pepper ? [{ pepper: pepper - 1, sealed: wrapped_former_pepper }] : []),
    { pepper, sealed: wrapped_pepper },
  ]
  return [
    ...earlier.map((row) => ({
      pepper: -row.number,
      number: row.number,
      binding: tenantPepperBinding({ tenant_id, number: row.number }),
      sealed: row.wrapped_pepper,
    })),
    ...own.map(({ pepper, sealed }, at) => ({ pepper, number: next + at, binding: pepperBinding(pepper), sealed })),
  ]
}

/** @throws Refusal E_STATE if the peppers are not those that this command staged: the move was undone, or a pepper replaced */
export async function assertStaged(
  tenant_id: string,
  { lock, there, peppers }: Pick<Arriving, 'lock' | 'peppers'> & { there: Transaction },
): Promise<void> {
  const staged = await lockPeppersOf(there, tenant_id)
  const { pepper } = await getPeppers(lock)
  if (!peppers?.numbers.has(pepper) || !areSame(peppers.rows, staged)) throw notStaged()
}

/** Whether the same command wrote both, since sealing a pepper again gives other bytes. */
function areSame(rows: readonly TenantPepperRow[], staged: readonly TenantPepperRow[]): boolean {
  const wrapped = staged.map(({ wrapped_pepper }) => wrapped_pepper)
  return (
    rows.length === staged.length &&
    rows.every((row, at) => equalBytes(row.wrapped_pepper, wrapped[at] ?? new Uint8Array()))
  )
}

function notStaged(): Refusal {
  return new Refusal('E_STATE', 'the move was undone meanwhile, or a pepper replaced: repeat the command')
}
