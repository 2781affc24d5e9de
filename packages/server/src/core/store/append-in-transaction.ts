/**
 * Appends to one log as `appendEntries` does, by several statements: a database that spans machines sends each to the
 * tenant's machine, and would copy the parts of the one statement to every machine, for three times the CPU time.
 */
import { ANY_SKEW_MS, type Append, type Appended, countByKind } from './audit.js'
import { assertInserted, type Sql, type Transaction } from './db.js'

/** Rows of one statement: each number of them is a statement of its own, which the session keeps prepared. */
const ROWS_AT_ONCE = 64

export function appendInTransaction(sql: Sql, append: Append): Promise<Appended> {
  return sql.begin(async (transaction): Promise<Appended> => {
    const { previous, clock } = append
    const [locked] = await transaction<{ database_time: number }[]>`
      select ${milliseconds(transaction)} as database_time from heads
      where tenant_id = ${previous.tenant_id} and last_id = ${previous.last_id} and hash = ${previous.hash}
        and policy_version = ${previous.policy_version} and mac = ${previous.mac}
      for update skip locked`
    const tolerance = Math.min(clock.toleranceMs, ANY_SKEW_MS)
    if (locked && Math.abs(locked.database_time - clock.time) <= tolerance) {
      await write(transaction, append)
      return { isMoved: true, ...locked }
    }
    const [now] = await transaction<{ database_time: number }[]>`select ${milliseconds(transaction)} as database_time`
    if (!now) throw new Error('the database did not return its time')
    return { isMoved: false, ...(locked ?? now) }
  }) as Promise<Appended>
}

function milliseconds(sql: Transaction) {
  return sql`(extract(epoch from pg_catalog.clock_timestamp()) * 1000)::float8`
}

async function write(sql: Transaction, { next, entries }: Append): Promise<void> {
  const { tenant_id } = next
  const [first] = entries
  if (!first) throw new Error('there is nothing to append')
  const { created_at } = first
  const day = created_at.slice(0, 'YYYY-MM-DD'.length)
  const rows = entries.map((entry) => ({ ...entry, tenant_id, created_at }))
  const counts = countByKind(entries).map((kind) => ({ ...kind, tenant_id, day }))
  // Sent together. A failure of one ends the transaction, whatever the others answer.
  await Promise.all([
    sql`
      update heads
      set last_id = ${next.last_id}, hash = ${next.hash}, policy_version = ${next.policy_version},
          created_at = ${next.created_at}, mac = ${next.mac}
      where tenant_id = ${tenant_id}`.then((result) => assertInserted(result, 'heads')),
    ...inParts(rows).map((part) =>
      sql`
      insert into audit_log ${sql(part, 'tenant_id', 'id', 'action', 'key_id', 'key_version', 'actor', 'ip_address', 'metadata', 'created_at', 'hash', 'mac')}`.then(
        (result) => assertInserted(result, 'audit_log', part.length),
      ),
    ),
    ...inParts(counts).map(
      (part) => sql`
      insert into audit_counts ${sql(part, 'tenant_id', 'day', 'action', 'key_id', 'key_version', 'api_key_id', 'entries')}
      on conflict (tenant_id, day, action, key_id, key_version, api_key_id) do update set entries = audit_counts.entries + excluded.entries`,
    ),
  ])
}

function inParts<Row>(rows: readonly Row[]): Row[][] {
  const parts: Row[][] = []
  for (let at = 0; at < rows.length; at += ROWS_AT_ONCE) parts.push(rows.slice(at, at + ROWS_AT_ONCE))
  return parts
}
