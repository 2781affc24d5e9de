import {
  divideRows,
  MOST_PARAMETERS,
  type Row,
  readConflict,
  refuseCall,
  rememberCaller,
  runFor,
} from '@eaas/sdk/adapter'
import { type Constructor, type Context, findMain, markSealed, stateOf } from './builders.js'
import {
  findConflict,
  hasOtherWrites,
  insertParts,
  isByFoundRows,
  pinnedIn,
  updateFound,
  upsertFound,
} from './found-rows.js'
import { nameByColumn } from './ids.js'
import type { Alias, Builder, ColumnMetadata, InsertBuilder, UpdateBuilder } from './internals.js'
import { Pending } from './pending.js'
import { marked } from './text.js'
import {
  conditionOfMany,
  type Many,
  madeColumns,
  markMany,
  readRow,
  sealChanges,
  sealInserts,
  sealMany,
  type Target,
} from './writes.js'

/** The sealed values from which a builder makes its SQL, in place of the given ones. */
const sealedValues = new WeakMap<object, object>()
/** The values of an update of many rows, by its builder. */
const manyValues = new WeakMap<object, Many>()

export function extendInsert(Base: Constructor<InsertBuilder>, context: Context): Constructor<InsertBuilder> {
  return class extends Base {
    override execute(): Promise<unknown> {
      const target = findTarget(context, this)
      if (!target) return super.execute()
      return runFor(rememberCaller(), async () => {
        const targets = findConflict(this, target)
        if (targets) return upsertFound(context, this, target, targets)
        const parts = partsOf(this, target)
        if (parts.length > 1 && !hasOtherWrites(this)) return insertParts(this, target, parts)
        const result = (await super.execute()) as { raw?: unknown }
        if (Array.isArray(result.raw)) result.raw = result.raw.filter((row) => row !== undefined) // by `inPlaces`
        return result
      })
    }

    override getValueSets(): object[] {
      return (sealedValues.get(this) as object[] | undefined) ?? super.getValueSets()
    }

    /** Adds the columns of `bind`: TypeORM omits `serial` and identity columns. */
    override getInsertedColumns(): ColumnMetadata[] {
      const columns = super.getInsertedColumns()
      const target = findTarget(context, this)
      if (!target || this.expressionMap.insertColumns.length > 0) return columns
      const bound = target.known.sealed.bind.map((name) => target.known.columnOf(target.metadata, name))
      return [...bound.filter((column) => !columns.includes(column)), ...columns]
    }

    override createValuesExpression(): string {
      const target = findTarget(context, this)
      if (!target) return super.createValuesExpression()
      const { values, made } = sealInserts(target, super.getValueSets())
      const { run } = stateOf(this)
      if (run) run.made = made
      return withValues(this, values, () => super.createValuesExpression())
    }

    override createColumnNamesExpression(): string {
      const text = super.createColumnNamesExpression()
      const known = findMain(context, this)
      if (!known) return text
      const columns = this.getInsertedColumns()
      return columns.map((one) => markSealed(this, known, one.databaseName)).join(', ')
    }

    override createInsertExpression(): string {
      const target = findTarget(context, this)
      if (!target) return super.createInsertExpression()
      assertWhole(this, target)
      const rows = super.getValueSets().map((entity) => readRow(target.known, target.metadata, entity))
      const moved = readOverwrite(this, target, rows)
      return moved.reduce((text, column) => {
        const quoted = this.escape(column)
        return text.replace(`${quoted} = EXCLUDED.${quoted}`, `${marked(quoted)} = EXCLUDED.${marked(quoted)}`)
      }, super.createInsertExpression())
    }
  }
}

export function extendUpdate(Base: Constructor<UpdateBuilder>, context: Context): Constructor<UpdateBuilder> {
  return class extends Base {
    override getValueSet(): Row {
      return (sealedValues.get(this) as Row | undefined) ?? super.getValueSet()
    }

    override execute(): Promise<unknown> {
      const target = findTarget(context, this)
      if (!target) return super.execute()
      return runFor(rememberCaller(), async () => {
        return isByFoundRows(context, this, target) ? updateFound(context, this, target) : super.execute()
      })
    }

    override createWhereExpression(): string {
      const many = manyValues.get(this)
      return many ? conditionOfMany(this, many) : super.createWhereExpression()
    }

    override createUpdateExpression(): string {
      const { rows, finding } = stateOf(this)
      if (finding !== undefined) {
        const { columns, order } = finding
        const found = `${this.getTableName(this.getMainTableName())}${this.createWhereExpression()}`
        return `SELECT ${columns} FROM ${found}${order && ` ORDER BY ${order}`} FOR UPDATE`
      }
      const target = findTarget(context, this)
      if (!target) return super.createUpdateExpression()
      if (rows?.[1]) {
        const many = sealMany(target, super.getValueSet(), rows)
        manyValues.set(this, many)
        const text = withValues(this, many.changes, () => super.createUpdateExpression())
        manyValues.delete(this)
        return markMany(this, many, text)
      }
      const changes = sealChanges(target, super.getValueSet(), rows?.[0] ?? pinnedIn(context, this))
      const text = withValues(this, changes, () => super.createUpdateExpression())
      return markChanges(this, target, text)
    }
  }
}

function findTarget(context: Context, builder: Builder): Target | undefined {
  const known = findMain(context, builder)
  const { prepare, ids } = context
  return known && { known, metadata: (builder.expressionMap.mainAlias as Alias).metadata, prepare, ids }
}

/** Divides the rows of an insert into statements with no more parameters than PostgreSQL takes. */
function partsOf(builder: InsertBuilder, { known }: Target): object[][] {
  if (builder.expressionMap.insertFromSelect) return [] // refused
  const isFilled = (column: ColumnMetadata) => known.nameOf(column) !== undefined || column.isDiscriminator
  const columns = builder.getInsertedColumns()
  const costOf = (entity: object) =>
    columns.filter((column) => isFilled(column) || column.getEntityValue(entity) !== undefined).length
  const own = Object.keys(builder.getParameters()).length
  return divideRows(builder.getValueSets(), costOf, MOST_PARAMETERS.postgres - own)
}

function withValues<T>(builder: object, values: object, run: () => T): T {
  sealedValues.set(builder, values)
  try {
    return run()
  } finally {
    sealedValues.delete(builder)
  }
}

/** @throws InvalidInputError for an insert from a select, or one that omits columns of the model */
function assertWhole(builder: InsertBuilder, { known, metadata }: Target): void {
  const { insertFromSelect, insertColumns } = builder.expressionMap
  if (insertFromSelect) refuseCall('an insert from a select', 'Read the rows, and insert them.')
  const columns = builder.getInsertedColumns()
  const lacking = known.sealed.columns.find((name) => !columns.includes(known.columnOf(metadata, name)))
  if (lacking !== undefined && insertColumns.length > 0)
    refuseCall(`an insert without the column ${JSON.stringify(lacking)}`, 'Leave out the list of columns.')
}

/** Adds index columns to those that an upsert changes. Returns the encrypted columns among them. */
function readOverwrite(builder: InsertBuilder, { known, metadata }: Target, rows: readonly Row[]): string[] {
  const { onUpdate } = builder.expressionMap
  if (!onUpdate?.overwrite) return []
  const nameOf = (column: string) => nameByColumn({ known, metadata }, column)
  const targets = Array.isArray(onUpdate.conflict) ? onUpdate.conflict : []
  const conflict = readConflict(known.sealed, targets.map(nameOf), rows)
  const rebound = onUpdate.overwrite.find((column) => known.sealed.bind.includes(nameOf(column)))
  if (rebound !== undefined && !targets.includes(rebound)) {
    const hint = 'Leave it out: encrypted values are bound to it.'
    refuseCall(`an upsert that changes ${known.sealed.name}.${rebound}`, hint)
  }
  const overwritten = onUpdate.overwrite.filter((column) => !targets.includes(column))
  known.sealed.assertKeepsKey(Object.fromEntries(overwritten.map((column) => [nameOf(column), {}])), conflict.bound)
  const moved = onUpdate.overwrite.filter((column) => known.sealed.isSealed(nameOf(column)))
  if (moved.length > 0 && onUpdate.skipUpdateIfNoValuesChanged)
    refuseCall('skipUpdateIfNoValuesChanged', 'Leave it out: encrypted values differ each time.')
  const added = conflict.excluded(moved.map(nameOf))
  const columns = added.map((name) => known.columnOf(metadata, name).databaseName)
  const made = madeColumns(known)
  const others = onUpdate.overwrite.filter((column) => !made.includes(nameOf(column)))
  onUpdate.overwrite = [...new Set([...others, ...columns])]
  return moved
}

function markChanges(builder: Builder, { known }: Target, text: string): string {
  const pending = Object.entries(builder.getParameters()).filter(([, value]) => value instanceof Pending)
  const parameters = new Set(pending.map(([key]) => `:${key}`))
  return text.replaceAll(/("(?:[^"]|"")+") = (:\w+)/g, (whole, quoted: string, parameter: string) => {
    const isSealed = known.sealedNames.has(quoted.slice(1, -1).toLowerCase())
    return isSealed && parameters.has(parameter) ? `${marked(quoted)} = ${parameter}` : whole
  })
}
