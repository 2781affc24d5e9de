/** Makes the values of index columns in which the service takes part. Loaded for the first of them. */
import { encodeUtf8, lengthPrefixed } from '@eaas/protocol'
import type { FillRandom } from '../deks/random.js'
import { ProtocolError } from '../errors.js'
import type { RecordsDeps } from '../records/blocks.js'
import { hashEach } from '../records/seal-blocks.js'
import { together } from '../together.js'
import { createPace, loadOnce, loadPart, microtasks, onAbort, requestsAreIsolated } from '../waiting.js'
import type { HashLocally } from './index-texts.js'
import type { Columns, Options } from './oblivious-index.js'

const loadOblivious = /* @__PURE__ */ loadOnce(() => loadPart(() => import('./oblivious-index.js')))
const WAITING = { microtasks, onAbort, requestsAreIsolated, together }

interface Tools {
  hashLocally: HashLocally
  fillRandom: FillRandom
  /** Whether the service sees no value. */
  oblivious: boolean
}

/** Sets the hash of each text. Equal texts have one hash of the service, whatever their column. */
export async function hashWithService(
  { hashLocally, fillRandom, oblivious }: Tools,
  deps: RecordsDeps,
  options: Options,
  columns: Columns,
): Promise<void> {
  if (oblivious) {
    const { hashObliviously } = await loadOblivious()
    const tools = [hashLocally, createPace, fillRandom, encodeUtf8, lengthPrefixed, ProtocolError, WAITING] as const
    return hashObliviously(tools, deps, options, columns)
  }
  const texts = new Set(columns.flatMap((own) => [...own.keys()]))
  const made = await hashEach(deps.batcher, texts, options)
  for (const own of columns) for (const text of own.keys()) own.set(text, made.get(text) ?? '')
}
