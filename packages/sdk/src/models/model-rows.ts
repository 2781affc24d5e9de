/** Seals and opens the rows of a model. With a synchronous engine, its loops await nothing for each field. */
import { createPace, type Pace } from '../async/pace.js'
import { type EaasError, isEaasError } from '../errors.js'
import { assertNotAborted, type Row } from '../input.js'
import { hashEach } from '../records/hash-columns.js'
import { assertList, copyRows } from '../records/plain-rows.js'
import type { Definition } from './definition.js'
import { columnValue, readQueryTexts } from './index-texts.js'
import type { ModelDeps, RowsOptions } from './model-deps.js'
import { type Opened, openRows } from './open-rows.js'
import { type RowRead, readEach, type SealOptions, sealRows } from './seal-rows.js'

export interface ModelRows {
  /** Seals all rows, or none. */
  seal(rows: readonly Row[], options: SealOptions): Promise<Row[]>
  /** Seals the rows, and returns an error in place of each that cannot be sealed. `indexes` are the record numbers in errors. */
  sealEach(rows: readonly Row[], options: SealOptions & { indexes: readonly number[] }): Promise<(Row | EaasError)[]>
  /** Opens the rows, each of which may fail by itself. `first` is the record number of the first one; 0 by default. */
  open(rows: readonly Row[], options: RowsOptions & { first?: number }): Promise<Opened>
  /** Makes the index columns of a query. */
  hash(query: Row, signal: AbortSignal | undefined): Promise<Row>
}

/** Makes the functions that seal and open rows of a definition. */
export function createModelRows(deps: ModelDeps, definition: Definition): ModelRows {
  const { keyId, columns, bind, whole = definition } = definition

  const sealRead = async (rows: readonly Row[], read: readonly RowRead[], pace: Pace, options: SealOptions) => {
    await deps.envelopes.ready()
    const values = new Set(read.flatMap(({ texts }) => texts).filter((text) => text !== undefined))
    const hashing = hashEach(deps.batcher, values, { keyId, signal: options.signal }) // in one request with the wrap
    const [hashes, sealed] = await Promise.all([hashing, sealRows(deps, definition, rows, { ...options, pace, read })])
    for (const [at, row] of sealed.entries()) {
      for (const [number, column] of columns.entries()) {
        const text = read[at]?.texts[number]
        row[column.column] = text === undefined ? null : columnValue(column, hashes.get(text) ?? '')
      }
    }
    options.onProgress?.({ done: rows.length, total: rows.length })
    return sealed
  }
  return {
    async seal(records, options) {
      assertNotAborted(options.signal)
      const rows = copyRows(records, { paths: [...whole.fields, ...bind].map(({ path }) => path), toStore: true })
      const pace = createPace()
      const read: RowRead[] = []
      for (const one of readEach(definition, rows, [...rows.keys()])) {
        if (pace.due()) await rest(pace, options)
        if (isEaasError(one)) throw one
        read.push(one)
      }
      return sealRead(rows, read, pace, options)
    },
    async sealEach(rows, { indexes, ...options }) {
      const read = [...readEach(definition, rows, indexes)]
      const goodRead = read.filter((one): one is RowRead => !isEaasError(one))
      const good = rows.filter((_, at) => !isEaasError(read[at]))
      try {
        const sealed = (await sealRead(good, goodRead, createPace(), options)).values()
        return read.map((one) => (isEaasError(one) ? one : (sealed.next().value ?? {})))
      } catch (error) {
        if (!isEaasError(error) || error.code === 'E_ABORTED') throw error
        return read.map((one) => (isEaasError(one) ? one : error)) // no row could be sealed: the wrap or the hashes failed
      }
    },
    async open(records, { first = 0, ...options }) {
      assertNotAborted(options.signal)
      assertList(records)
      await deps.envelopes.ready()
      return openRows(deps, definition, records, { ...options, first })
    },
    async hash(query, signal) {
      const texts = readQueryTexts(definition, query)
      const hashes = await hashEach(deps.batcher, new Set(texts.values()), { keyId, signal })
      const row: Row = {}
      for (const [column, text] of texts) row[column.column] = columnValue(column, hashes.get(text) ?? '')
      return row
    },
  }
}

async function rest(pace: Pace, { signal }: RowsOptions): Promise<void> {
  await pace.rest()
  assertNotAborted(signal)
}
