/** Code that few indexes need: values in which the service takes part, errors, and a warning. */
import { encodeUtf8, lengthPrefixed } from '@eaas/protocol'
import type { FillRandom } from '../deks/random.js'
import { InvalidInputError, ProtocolError } from '../errors.js'
import type { RecordsDeps } from '../records/blocks.js'
import { hashEach, together } from '../records/seal-blocks.js'
import { createPace, loadOnce, loadPart, microtasks, onAbort, requestsAreIsolated } from '../waiting.js'
import type { IndexColumn } from './index-columns.js'
import type { HashLocally } from './index-texts.js'
import type { Columns, Options } from './oblivious-index.js'

const loadOblivious = /* @__PURE__ */ loadOnce(() => loadPart(() => import('./oblivious-index.js')))
const TOOLS = {
  ...{ createPace, encodeUtf8, lengthPrefixed, ProtocolError },
  ...{ microtasks, onAbort, requestsAreIsolated, together },
}

export type Tools = typeof TOOLS & { hashLocally: HashLocally; fillRandom: FillRandom }

/** Sets the hash of each text. For the service, equal texts have one hash, whatever their column. */
export async function hashWithService(
  { oblivious, ...own }: { oblivious: boolean; hashLocally: HashLocally; fillRandom: FillRandom },
  deps: RecordsDeps,
  options: Options,
  columns: Columns,
): Promise<void> {
  if (oblivious) {
    const { hashObliviously } = await loadOblivious()
    return hashObliviously({ ...TOOLS, ...own }, deps, options, columns)
  }
  const texts = new Set(columns.flatMap((own) => [...own.keys()]))
  const made = await hashEach(deps.batcher, texts, options)
  for (const own of columns) for (const text of own.keys()) own.set(text, made.get(text) ?? '')
}

export function otherIndexSecret(keyId: string, name: string): ProtocolError {
  const message = `key ${keyId}: the service derived another index secret for ${JSON.stringify(name)} than before`
  const hint =
    'The secret of a key never changes: check that the base URL is of the same service, and that it was not restored with other keys.'
  return Object.assign(new ProtocolError(message, 200), { hint })
}

/** Hashing would show the value to the service, which the secret is meant to prevent. */
export function hashDespiteSecret(): InvalidInputError {
  const hint = 'Let a model make the index, or leave it out.'
  return new InvalidInputError('a client with a secret sends no value to be hashed', hint)
}

const warned = new Set<string>()

/** What an attacker who tests guesses finds, and what can be changed besides leaving out the index. */
const GIVEN_AWAY: Readonly<Record<IndexColumn['kind'], readonly [found: string, remedy: string]>> = {
  exact: ['them all', ', add a field'],
  prefix: ['how each begins', ''],
  ngram: ['them all', ''],
  range: ['the bucket of each', ', declare larger buckets'],
}

/** Warns once per process about an index that guesses reveal; `isMixed` tells whether the application's secret is in it. */
export function warnOfFewValues({ column, fields: indexed, source, kind }: IndexColumn, isMixed: boolean): void {
  const fields = indexed.map(({ name }) => name)
  const index = JSON.stringify([column, fields])
  if (warned.has(index)) return
  warned.add(index)
  const { secret, oblivious } = source
  const able = `has ${isMixed ? 'the secret and ' : ''}${secret && !oblivious ? 'unwrap' : 'hash'}`
  const [found, remedy] = GIVEN_AWAY[kind]
  const isLargest = kind === 'range' && indexed[0]?.spec.range === 'year'
  console.warn(
    `@eaas/sdk: the index ${JSON.stringify(column)} is over ${fields.join(', ')}, which looks like data of few values: ` +
      `who can read the column and ${able} can find ${found}. ` +
      `Omit the index${isLargest ? '' : remedy}, or pass \`warn: false\`.`,
  )
}
