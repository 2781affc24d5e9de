/** Seals and opens the rows of a model. With a synchronous engine, its loops await nothing for each field. */

import { type EaasError, isEaasError } from '../errors.js'
import { assertArray, assertNotAborted, type Row } from '../input.js'
import { createPace, type Pace } from '../pace.js'
import { failureOf } from '../records/blocks.js'
import { copyRows } from '../records/plain-rows.js'
import type { Definition } from './definition.js'
import { readQueryTexts } from './index-texts.js'
import { hashColumnTexts } from './index-values.js'
import type { AccessRows } from './model-access.js'
import type { ModelDeps, RowsOptions } from './model-deps.js'
import { named } from './named-errors.js'
import { type Opened, openRows } from './open-rows.js'
import { pickFields, withNull } from './pick.js'
import { type RewrapBatch, type RewrapOptions, resealRows, rewrapRows } from './rotation.js'
import { indexesOf, type RowRead, readEach, type SealOptions, sealRows } from './seal-rows.js'

export { warnOfFewValues } from './few-values.js'

export interface ModelRows {
  /** Seals all rows, or none. */
  seal(rows: readonly Row[], options: SealOptions): Promise<Row[]>
  /**
   * Seals the rows, and returns an error in place of each that cannot be sealed. `indexes` are the record
   * numbers in errors.
   */
  sealEach(rows: readonly Row[], options: SealOptions & { indexes: readonly number[] }): Promise<(Row | EaasError)[]>
  /**
   * Opens the rows, each of which may fail by itself. `first` is the record number of the first one; 0 by
   * default.
   */
  open(rows: readonly Row[], options: RowsOptions & { first?: number }): Promise<Opened>
  /** The same for adapters. */
  access: AccessRows
  /** Makes the index columns of a query. */
  hash(query: Row, signal: AbortSignal | undefined): Promise<Row>
  /** Has the DEKs of the rows wrapped again; see `Model.rewrap`. */
  rewrap(rows: Iterable<Row>, options: RewrapOptions): AsyncGenerator<RewrapBatch<Row>, void, undefined>
  /** Opens the rows and seals them under new DEKs; see `Model.reseal`. */
  reseal(rows: Iterable<Row>, options: RewrapOptions): AsyncGenerator<RewrapBatch<Row>, void, undefined>
}

/** Makes the functions that seal and open rows of a definition. */
export function createModelRows(deps: ModelDeps, definition: Definition): ModelRows {
  const { columns, bind, named: key, whole = definition } = definition

  const sealRead = async (read: readonly RowRead[], pace: Pace, options: SealOptions) => {
    await deps.envelopes.ready()
    const indexing = hashColumnTexts(
      deps,
      definition,
      read.map(({ texts }) => texts),
      options,
    ) // in one request with the wrap
    const sealing = sealRows(deps, definition, read, { ...options, pace, indexing })
    const [getValue, sealed] = await Promise.all([indexing, sealing]).catch((error: unknown) => {
      throw named(error, definition)
    })
    for (const [at, row] of sealed.entries()) Object.assign(row, indexesOf(definition, read[at], getValue))
    options.onProgress?.({ done: read.length, total: read.length })
    return sealed
  }
  const model: ModelRows = {
    async seal(records, options) {
      assertNotAborted(options.signal)
      const rows = copyRows(records, { paths: [...whole.fields, ...bind].map(({ path }) => path), toStore: true })
      await key?.find(deps.ensureKey, options.signal)
      const pace = createPace()
      const read: RowRead[] = []
      for (const one of readEach(definition, rows, [...rows.keys()])) {
        if (pace.due()) await pace.rest(options.signal)
        if (isEaasError(one)) throw one
        read.push(one)
      }
      return sealRead(read, pace, options)
    },
    async sealEach(rows, { indexes, ...options }) {
      const failure = await key?.find(deps.ensureKey, options.signal).catch(failureOf)
      const read = failure ? rows.map(() => failure) : [...readEach(definition, rows, indexes)]
      const byKey: Record<string, RowRead[]> = {}
      for (const one of read) {
        if (isEaasError(one)) continue
        const { keyId = '' } = one
        byKey[keyId] ??= []
        byKey[keyId].push(one)
      }
      const sealed = new Map<unknown, Row | EaasError>()
      const pace = createPace()
      // A key that cannot be used fails its own rows alone. The wraps of all still go out together.
      const sealing = Object.values(byKey).map(async (own) => {
        const made = await sealRead(own, pace, options).catch((error) => own.map(() => failureOf(error)))
        for (const [at, one] of own.entries()) sealed.set(one, made[at] ?? {})
      })
      await Promise.all(sealing)
      return read.map((one) => (isEaasError(one) ? one : (sealed.get(one) ?? {})))
    },
    async open(records, { first = 0, ...options }) {
      assertNotAborted(options.signal)
      assertArray('records', records)
      const failure = await key?.find(deps.findKey, options.signal).catch(failureOf)
      await deps.envelopes.ready()
      return openRows(deps, definition, records, { ...options, first, failure })
    },
    access: {
      seal(rows, fields) {
        const sealing = { ...definition, fields: withNull(definition.fields) }
        return createModelRows(deps, fields ? pickFields(sealing, fields) : sealing).seal(rows, {})
      },
      async open(rows, fields) {
        const picked = pickFields(definition, fields)
        const opening = { ...picked, fields: withNull(picked.fields, true), columns: [] }
        const { ok, failed } = await createModelRows(deps, opening).open(rows, {})
        if (failed[0]) throw failed[0].error
        return ok
      },
      index: (query) => model.hash(query, undefined),
    },
    async hash(query, signal) {
      const texts = readQueryTexts(definition, query)
      if (definition.indexKey) {
        await deps.envelopes.ready()
        await key?.find(deps.findKey, signal)
      }
      const getValue = await hashColumnTexts(deps, definition, [columns.map((column) => texts.get(column))], { signal })
      return Object.fromEntries([...texts].map(([column, one]) => [column.column, getValue(column, one)]))
    },
    rewrap: (rows, options) => rewrapRows(deps, definition, rows, options),
    reseal: (rows, options) => resealRows(model, rows, options),
  }
  return model
}
