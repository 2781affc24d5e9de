/** Finds PostgreSQL triggers that change what is written: an altered value never opens again. */
import { InvalidInputError } from '../errors.js'
import { literal, type RunSql } from './made-ids.js'
import type { SealedTable } from './sealed-table.js'
import { isName, isSign, readings, type Token } from './sql-tokens.js'

/** Lists the triggers that a write runs: on the table, its partitions and children, or the table under a view. */
const queryOf = (table: string) => `with recursive reached (id) as (
  select pg_catalog.to_regclass(${literal(table)})::pg_catalog.oid
  union
  select below.id from reached cross join lateral (
    select inhrelid from pg_catalog.pg_inherits where inhparent = reached.id
    union all
    select d.refobjid from pg_catalog.pg_rewrite r join pg_catalog.pg_depend d on d.objid = r.oid
    where r.ev_class = reached.id and r.ev_type = '1' and d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass
      and d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
  ) as below (id)
)
select t.tgname::text as name, c.relname::text as relation, case t.tgtype & 66 when 0 then 'after' else 'before' end as timing,
  pg_catalog.concat(p.prosrc, ';', pg_catalog.pg_get_triggerdef(t.oid)) as source
from reached join pg_catalog.pg_class c on c.oid = reached.id join pg_catalog.pg_trigger t on t.tgrelid = c.oid
join pg_catalog.pg_proc p on p.oid = t.tgfoid where t.tgtype & 20 <> 0
  and t.tgenabled in ('A', case pg_catalog.current_setting('session_replication_role') when 'replica' then 'R' else 'O' end)`

/** The tables that were checked, by model, since a model may seal one in each schema. */
const asked = new WeakMap<SealedTable, Set<string>>()

/** Calls `assertUnchanged` once for each table, before an insert or update. `nameIn` returns the database's column name. */
export async function assertWritable(
  run: RunSql,
  sealed: SealedTable,
  { table, nameIn = (column) => column }: { table: string; nameIn?: (column: string) => string },
): Promise<void> {
  const tables = asked.get(sealed) ?? new Set()
  if (tables.has(table)) return
  const envelopes = sealed.stored.filter(({ holds }) => holds === 'json' || holds === 'text')
  const columns = envelopes.map(({ column }) => nameIn(column))
  await assertUnchanged(run, { model: sealed.name, table, columns })
  asked.set(sealed, tables.add(table))
}

/**
 * Refuses a table if the text of a trigger function shows that it changes an encrypted column. `table` is quoted;
 * `columns` are the database's names. @throws InvalidInputError
 */
export async function assertUnchanged(
  run: RunSql,
  { model, table, columns }: { model: string; table: string; columns: readonly string[] },
): Promise<void> {
  const names = columns.map((column) => column.toLowerCase())
  for (const trigger of (await run(queryOf(table))) as Trigger[]) {
    const column = findChanged(trigger, names)
    if (column === undefined) continue
    throw new InvalidInputError(
      `the trigger ${trigger.name} of the table of ${model} changes the column ${column}, whose values would never open again`,
      'Drop the trigger, and normalize by the model: text({ normalize: […] }).',
    )
  }
}

/** A trigger on the table `relation`, with its function's text and its definition. */
export interface Trigger {
  name: string
  relation: string
  /** `before` also for a trigger that runs instead of the write: the row that it returns is stored. */
  timing: 'before' | 'after'
  source: string
}

/**
 * Returns which of these columns a PL/pgSQL trigger changes: with `new.email := …`, `select … into new.email` or a row
 * made from `new`; or, even after the write, with an update of its own table.
 */
export function findChanged({ relation, timing, source }: Omit<Trigger, 'name'>, columns: readonly string[]) {
  const isColumn = ({ text }: Token) => columns.includes(text.toLowerCase())
  for (const given of readings(source)) {
    const tokens = given.filter(({ kind }) => kind !== 'comment')
    const rows = timing === 'before' ? rowNames(tokens) : []
    const isFilled = fillsRow(tokens, rows)
    const found = tokens.find((token, at) => {
      if (!isColumn(token)) return false
      if (token.kind === 'literal') return isFilled
      return isName(token) && (isAssigned(tokens, at, rows) || isUpdated(tokens, at, relation.toLowerCase()))
    })
    if (found) return found.text.toLowerCase()
  }
  return undefined
}

function rowNames(tokens: readonly Token[]): string[] {
  const aliases = tokens.filter((_, at) =>
    ['alias', 'for', 'new'].every((word, i) => tokens[at + 1 + i]?.text === word),
  )
  return ['new', ...aliases.map(({ text }) => text)]
}

const FILLS = new Set(['json_populate_record', 'jsonb_populate_record', 'populate_record'])

/** Tells whether a row is made from the one to store and from named members, as `new #= hstore('email', …)` does. */
function fillsRow(tokens: readonly Token[], rows: readonly string[]): boolean {
  return tokens.some(({ text }, at) => {
    const [first, second] = [tokens[at + 1], tokens[at + 2]]
    if (FILLS.has(text)) return isSign(first, '(') && rows.includes(second?.text ?? '')
    return rows.includes(text) && isSign(first, '#') && isSign(second, '=')
  })
}

const BEGIN = new Set(['begin', 'then', 'else', 'loop', ';'])

function isAssigned(tokens: readonly Token[], at: number, rows: readonly string[]): boolean {
  if (!isSign(tokens[at - 1], '.') || !rows.includes(tokens[at - 2]?.text ?? '')) return false
  const before = tokens[at - 3]
  if (isInto(tokens, at - 3)) return true
  const end = endOfSubscripts(tokens, at + 1)
  if (isSign(tokens[end], ':') && isSign(tokens[end + 1], '=')) return true
  return isSign(tokens[end], '=') && (!before || BEGIN.has(before.text)) // elsewhere `=` compares
}

/** Tells whether a position is in the list of a `select … into strict new.city, new.email`. */
function isInto(tokens: readonly Token[], from: number): boolean {
  let at = from
  while (isSign(tokens[at], ',')) {
    at -= 2
    while (isSign(tokens[at], '.')) at -= 2
  }
  return tokens[tokens[at]?.text === 'strict' ? at - 1 : at]?.text === 'into'
}

function endOfSubscripts(tokens: readonly Token[], from: number): number {
  let at = from
  while (isSign(tokens[at], '[')) at = tokens.findIndex((token, i) => i > at && isSign(token, ']')) + 1 || tokens.length
  return at
}

function isUpdated(tokens: readonly Token[], at: number, table: string): boolean {
  const start = tokens.findLastIndex(({ text }, i) => i < at && (text === 'update' || text === ';'))
  const set = tokens.findIndex(({ text }, i) => i > start && text === 'set')
  const isOfTable = tokens.slice(start + 1, Math.max(set, 0)).some((token) => isName(token) && token.text === table)
  if (tokens[start]?.text !== 'update' || set >= at || !isOfTable) return false
  return isSign(tokens[at + 1], '=') && (at - 1 === set || isSign(tokens[at - 1], ','))
}
