/** Seals, opens and indexes rows of a model. Each part is loaded at its first use. */
import type { EaasError } from '../errors.js'
import type { Row } from '../input.js'
import type { RowsOptions } from '../records/blocks.js'
import type { Definition } from './definition.js'
import type { ModelDeps } from './model-types.js'
import type { Opened } from './open-rows.js'
import type { RewrapBatch, RewrapOptions } from './rotation.js'
import type { SealOptions } from './seal-rows.js'

export interface ModelRows {
  seal(rows: readonly Row[], options: SealOptions): Promise<Row[]>
  /** Returns an error for each row that cannot be sealed. `indexes` are the rows' numbers in errors. */
  sealEach(rows: readonly Row[], options: SealOptions & { indexes: readonly number[] }): Promise<(Row | EaasError)[]>
  /** Opens rows, each of which may fail on its own. `first` is the first one's number in errors; 0 by default. */
  open(rows: readonly Row[], options: RowsOptions & { first?: number }): Promise<Opened>
  hash(query: Row, signal: AbortSignal | undefined): Promise<Row>
  rewrap(rows: Iterable<Row>, options: RewrapOptions): AsyncGenerator<RewrapBatch<Row>, void, undefined>
  reseal(rows: Iterable<Row>, options: RewrapOptions): AsyncGenerator<RewrapBatch<Row>, void, undefined>
}

/** `model` is the whole model, about whose indexes warnings are. */
export function createModelRows(deps: ModelDeps, definition: Definition, model = definition): ModelRows {
  const load = async () => {
    const sealing = await deps.loadSealing()
    const few = sealing.findFewValues(model)
    if (few.length > 0) {
      const { warnOfFewValues } = await deps.loadRare()
      for (const column of few)
        warnOfFewValues(column, sealing.mixedIn(column.source, sealing.records.envelopes.secrets) !== undefined)
    }
    return { ...sealing, records: { ...sealing.records, loadRare: deps.loadRare } }
  }
  const rows: ModelRows = {
    async seal(list, options) {
      const { sealRows, records } = await load()
      return sealRows(records, definition, list, options)
    },
    async sealEach(list, options) {
      const sealing = await load()
      const { sealEach } = await deps.loadMore()
      return sealEach(sealing, sealing.records, { definition, rows: list }, options)
    },
    async open(list, options) {
      const { openRows, records } = await deps.loadOpening()
      return openRows({ ...records, accepted: deps.accepted, loadRare: deps.loadRare }, definition, list, options)
    },
    async hash(query, signal) {
      const sealing = await load()
      const { hashQuery } = await deps.loadRare()
      return hashQuery(sealing, sealing.records, { definition, query }, signal)
    },
    async *rewrap(list, options) {
      const { copyStored, readJobs, records } = await deps.loadOpening()
      const { rewrapRows } = await deps.loadMore()
      yield* rewrapRows({ ...records, copyStored, readJobs, loadRare: deps.loadRare }, definition, list, options)
    },
    async *reseal(list, options) {
      yield* (await deps.loadMore()).resealRows(rows, list, options)
    },
  }
  return rows
}
