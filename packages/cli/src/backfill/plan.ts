/** The steps that encrypt a table in use, in an order in which searches find its rows throughout. */
import { counted } from '@eaas/protocol'
import { isEaasError } from '@eaas/sdk'
import { type AnyModel, type DescribedIndex, readMembers } from '@eaas/sdk/maintenance'
import type { InspectReport, Sdk } from './backfill.js'
import { openPostgres, type PostgresQuery } from './postgres.js'
import { type Ask, getColumn, readTable } from './postgres-columns.js'
import { assertHoldsEnvelopes, type PostgresColumn, quoteName, toText } from './postgres-values.js'
import { isTextFormat, makeSealedChecks, sealedColumns } from './sealed-checks.js'
import { columnNames } from './table.js'

export interface PlanStep {
  step: string
  /** Whether the table shows that the step is done; null where it cannot show it. */
  done: boolean | null
  run: string[]
}

export interface Plan {
  /** What is left, in words; undefined until the table has the columns of the model. */
  left: string | undefined
  steps: PlanStep[]
}

export interface PlanOptions {
  columns: Readonly<Record<string, string>>
  /** Writes the command line of a backfill of this table, with these options added. */
  command(more: string): string
  inspect(): Promise<InspectReport>
}

/** An index of the table other than its primary key. */
interface FoundIndex {
  name: string
  isUnique: boolean
  constraint: string | null
  /** Its columns, if it is on their values or on `lower()` of them. */
  columns: string[]
}

/** Makes the plan for a table, with the copy of the SDK that made the model. Reads the table, and changes nothing. */
export async function planWith(
  { describeModel }: Pick<Sdk, 'describeModel'>,
  model: AnyModel,
  { query, table }: { query: PostgresQuery; table: string },
  { columns, command, inspect }: PlanOptions,
): Promise<Plan> {
  const { ask, name } = openPostgres(query, table)
  const found = await readTable(ask, name)
  const described = describeModel(model)
  const renamed = readMembers('columns', columns, columnNames(described.table))
  const stored = (column: string) => renamed[column] ?? column
  const { envelope, fields, format, indexes, table: wanted } = described
  const heads = [...new Set(fields.map((field) => stored(field.split('.')[0] ?? '')))]
  const tooNarrow = heads.map((head) => getColumn(found, head)).flatMap(findTypeChange)
  const converted = tooNarrow.flatMap(({ column }) => (column.maxLength === undefined ? [column.name] : []))
  const jsonOrText = isTextFormat(format) ? 'text' : 'jsonb'
  const added = [
    ...wanted.indexes.map(({ column, list }) => [stored(column), list ? 'text[]' : 'text']),
    ...wanted.fields.map((field) => [stored(field), jsonOrText]), // the seal of a row, next to the fields
    ...(wanted.header.required ? [[stored(wanted.header.column), jsonOrText]] : []),
  ].filter(([column = '']) => !found.columns.has(column))
  const spelling = (column: string) => column.replaceAll('_', '').toLowerCase()
  const alike = columnNames(wanted).flatMap((column) => {
    const other = [...found.columns.keys()].find((one) => spelling(one) === spelling(stored(column)))
    return other === undefined || found.columns.has(stored(column)) ? [] : [{ column, other }]
  })
  const there = await readIndexes(ask, name)
  const lacking = [
    ...alike.map(
      ({ column, other }) =>
        `-- the table has the column "${other}": if it is ${column}, add --column ${column}=${other} to each command, and leave out what this would add`,
    ),
    ...tooNarrow.flatMap((one) => alterType(name, one)),
    ...added.map(([column = '', type]) => `alter table ${name} add column ${quoteName(column)} ${type};`),
    ...indexes.flatMap((index) => createIndexes(name, there, { index, stored })),
  ]
  const isOpenable = tooNarrow.length === 0 && added.length === 0
  const counts = isOpenable ? (await inspect()).found : undefined
  const unsealed = sum(
    counts?.fields,
    ({ plaintext, formerKey, v1 }) => plaintext + formerKey + (envelope === 2 ? v1 : 0),
  )
  const missing = sum(counts?.indexes, ({ missing, other }) => missing + other)
  const find = (column: string) => ({ column: stored(column), type: 'text' }) as const // only for the names
  const checks = makeSealedChecks('postgresql', found.table, sealedColumns(described, find))
  const isConstrained = checks.every((check) => found.sealedChecks.includes(check.name))
  const isSealed = counts !== undefined && unsealed === 0
  const hasSealed = isSealed && counts.rows > 0
  const isFilledAgain = (hasSealed && missing === 0) || null // sealing writes the index of the value that it read
  // An encrypted table gets one more index.
  const [accepting, because] =
    isConstrained || hasSealed ? ['', ''] : [' and its acceptPlaintext: true', ', which cannot read what is sealed']
  const outdated = there.filter((index) => index.columns.some((column) => heads.includes(column)))
  const long = await findLong(ask, name, heads)
  const tooLong = outdated.filter((index) => index.columns.some((column) => long.includes(column)))
  const others = outdated.filter((index) => !tooLong.includes(index))
  const fill = command('--work index')
  const steps: (PlanStep | false)[] = [
    {
      step: `${converted.length === 0 ? '' : `end the application if its code uses ${converted.join(', ')} as anything but text, such as a Date or a number; `}add the columns and indexes of the model, by a migration of your ORM or by this`,
      done: lacking.length === 0,
      run: lacking,
    },
    indexes.length > 0 && {
      step: 'fill the indexes, before the application with the model runs; correct rows that this names, and run it again',
      done: counts !== undefined && missing === 0,
      run: [fill],
    },
    tooLong.length > 0 && {
      step: 'drop the indexes of columns with long texts: they refuse sealed rows, which become longer still',
      done: false,
      run: tooLong.map((index) => dropIndex(name, index)),
    },
    {
      step: `if it is not done yet, deploy the application with the model${accepting}, and end all processes of the version before${because}`,
      done: null,
      run: [],
    },
    indexes.length > 0 && {
      step: 'at once, fill the indexes again: the rows that the version before inserted since come first, and searches miss them only as long as these take; then come those that it changed',
      done: isFilledAgain,
      run: [fill],
    },
    {
      step: 'seal the rows, and have the database refuse plaintext',
      done: isSealed && isConstrained,
      run: [command('--constrain')],
    },
    { step: 'remove acceptPlaintext from the model if it has it, and deploy that', done: null, run: [] },
    others.length > 0 && {
      step: 'drop the indexes of encrypted columns, unless the schema of your ORM names them',
      done: false,
      run: others.map((index) => dropIndex(name, index)),
    },
  ]
  const left =
    counts &&
    `${counted(counts.rows, 'row')}, ${counted(unsealed, 'value')} to seal, ${counted(missing, 'index', 'indexes')} to fill`
  return { left, steps: steps.filter((step) => step !== false) }
}

function sum<T>(counts: Readonly<Record<string, T>> | undefined, count: (of: T) => number): number {
  return Object.values(counts ?? {}).reduce((sum, of) => sum + count(of), 0)
}

type TypeChange = { column: PostgresColumn; why: string }

function findTypeChange(column: PostgresColumn): TypeChange[] {
  try {
    assertHoldsEnvelopes(column)
    return []
  } catch (error) {
    if (!isEaasError(error)) throw error
    return [{ column, why: error.message }]
  }
}

function alterType(table: string, { column, why }: TypeChange): string[] {
  const { action, note } = toText(column)
  return [`-- ${why}${note === undefined ? '' : `; this is ${note}`}`, `alter table ${table} ${action};`]
}

/** A B-tree entry holds 2,704 bytes. An envelope takes four thirds of its value and some 500 bytes more. */
const LONG_BYTES = 1_500

/** Finds the columns with a value that is too long for a B-tree once it is sealed. */
async function findLong(ask: Ask, table: string, columns: readonly string[]): Promise<string[]> {
  const are = columns.map((column) => `coalesce(max(octet_length(${quoteName(column)}::text)) > ${LONG_BYTES}, false)`)
  const [found] = (await ask(`select json_build_array(${are.join(', ')})::text as r from ${table}`)) as [boolean[]]
  return columns.filter((_, at) => found[at])
}

async function readIndexes(ask: Ask, table: string): Promise<FoundIndex[]> {
  const indexes = (await ask(
    `select json_build_object('name', i.indexrelid::regclass::text, 'isUnique', i.indisunique and i.indpred is null, 'constraint', k.conname,
       'columns', (select json_agg(pg_get_indexdef(i.indexrelid, n, true) order by n) from generate_series(1, i.indnkeyatts) as n))::text as r
     from pg_catalog.pg_index i left join pg_catalog.pg_constraint k on k.conindid = i.indexrelid and k.contype = 'u'
     where i.indrelid = to_regclass($1::text) and i.indisvalid and not i.indisprimary order by i.indexrelid`,
    [table],
  )) as FoundIndex[]
  const nameOf = (text: string) => {
    const [, column = text] = /^lower\((.*?)(?:::text)?\)$/.exec(text) ?? []
    return column.replace(/^"(.*)"$/, '$1').replaceAll('""', '"')
  }
  return indexes.map((index) => ({ ...index, columns: index.columns.map(nameOf) }))
}

/** Indexes an index column: one index for searches, and a unique one for each unique index on the plaintext. */
function createIndexes(
  table: string,
  there: readonly FoundIndex[],
  { index, stored }: { index: DescribedIndex; stored(column: string): string },
): string[] {
  const own = stored(index.column)
  if (there.some(({ columns }) => columns.includes(own))) return []
  if (index.kind === 'ngram') return [`create index concurrently on ${table} using gin (${quoteName(own)});`]
  const fields = index.fields.map(({ name }) => stored(name))
  const isWhole = index.kind === 'exact' && index.bits === null
  const unique = there.flatMap(({ isUnique, columns }) =>
    isWhole && isUnique && fields.every((field) => columns.includes(field))
      ? [[...new Set(columns.map((column) => (fields.includes(column) ? own : column)))]]
      : [],
  )
  const create = (word: string, names: readonly string[]) =>
    `create ${word}index concurrently on ${table} (${names.map(quoteName).join(', ')});`
  const search = unique.some(([first]) => first === own) ? [] : [create('', [own])]
  return [...unique.map((names) => create('unique ', names)), ...search]
}

function dropIndex(table: string, { name, constraint }: FoundIndex): string {
  if (constraint === null) return `drop index concurrently ${name};`
  return `alter table ${table} drop constraint ${quoteName(constraint)};`
}
