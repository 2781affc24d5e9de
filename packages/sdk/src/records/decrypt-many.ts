/** `decryptMany`: opens fields of many records, block by block. */

import {
  assertNotAborted,
  assertOneOf,
  assertOptions,
  type DemandOptions,
  isMissing,
  type Row,
  readDemand,
  toText,
} from '../input.js'
import { createPace } from '../waiting.js'
import {
  BLOCK_RECORDS,
  eachBlock,
  type Opening,
  type OpenJob,
  openBlock,
  type Progress,
  type RecordsDeps,
} from './blocks.js'
import { demandContext } from './bound-envelopes.js'
import { assertContextOf, assertFields, type ContextOf, checkPresence, contextAt, copyNamed } from './named-fields.js'
import { getAt, type Path, putAt } from './paths.js'
import { placeFields, type RecordField } from './plain-rows.js'
import { readEnvelope } from './read-envelope.js'

export interface DecryptManyOptions<F extends string, A extends 'text' | 'bytes', R = Row>
  extends DemandOptions<ContextOf<R, F>> {
  /**
   * The fields to open; all others stay unchanged. A dot leads into an object. A field that no record has is
   * refused.
   */
  fields: readonly F[]
  /**
   * Those of `fields` that a record may lack. A record that lacks any other is refused. Null counts as a
   * value.
   */
  optional?: readonly NoInfer<F>[] | undefined
  /** What the opened fields hold; text by default. */
  as?: A
  /** Ends the call, which then throws `AbortedError`. */
  signal?: AbortSignal | undefined
  /** Called regularly, and at the end. */
  onProgress?: ((progress: Progress) => void) | undefined
}

const DECRYPT_MANY_OPTIONS = ['fields', 'optional', 'context', 'acceptUnbound', 'keyIds', 'as', 'signal', 'onProgress']

/** Opens the fields of all records; see `Client.decryptMany`. */
export async function decryptMany(
  deps: RecordsDeps,
  records: readonly object[],
  options: DecryptManyOptions<string, 'text' | 'bytes'>,
): Promise<Row[]> {
  assertOptions('decryptMany()', options, DECRYPT_MANY_OPTIONS)
  const { fields, optional = [], as = 'text', signal } = options
  assertNotAborted(signal)
  assertFields(fields, optional)
  assertContextOf(options.context)
  const demand = readDemand(options)
  assertOneOf('as', as, ['text', 'bytes'])
  const rows = copyNamed(records, fields, false)
  const placed = placeFields(rows, fields)
  const pace = createPace()
  await checkPresence(rows, { fields: placed, optional, columns: [], toSeal: false, pace, signal })
  await deps.envelopes.ready()
  const opening: Opening<PlacedJob> = {
    ...{ pace, signal, onProgress: options.onProgress },
    progressOf: ({ place }) => ({ done: place.index, total: rows.length }),
    take({ place, path }, plaintext) {
      putAt(rows[place.index] ?? {}, path, as === 'text' ? toText(plaintext, place) : plaintext)
    },
    fail(_, error) {
      throw error
    },
  }
  await eachBlock(rows.length, async (start, deks) => {
    const jobs = readJobs(rows, placed, start, demand)
    assertNotAborted(signal)
    await openBlock(deps, jobs, deks, opening)
  })
  options.onProgress?.({ done: rows.length, total: rows.length })
  return rows
}

interface PlacedJob extends OpenJob {
  path: Path
}

function readJobs(
  rows: readonly Row[],
  fields: readonly RecordField[],
  start: number,
  { context, ...demand }: DemandOptions<ContextOf<Row, string>>,
): PlacedJob[] {
  const jobs: PlacedJob[] = []
  for (const [at, row] of rows.slice(start, start + BLOCK_RECORDS).entries()) {
    for (const { name, path } of fields) {
      const value = getAt(row, path)
      const place = { index: start + at, field: name }
      if (isMissing(value)) continue
      const bound = contextAt(context, row, place)
      const parts = demandContext(
        readEnvelope(value, place),
        { ...demand, ...(bound !== undefined && { context: bound }) },
        place,
      )
      jobs.push({ place, path, parts })
    }
  }
  return jobs
}
