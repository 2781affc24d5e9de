/** The warning of an index that gives all its values away. */
import type { IndexColumn } from './index-columns.js'

const warned = new Set<string>()

/** What those who test guesses find out, and what may be changed besides leaving out the index, by its kind. */
const GIVEN_AWAY: Readonly<Record<IndexColumn['kind'], readonly [found: string, remedy: string]>> = {
  exact: ['them all', ', add a field'],
  prefix: ['how each begins', ''],
  ngram: ['them all', ''],
  range: ['the bucket of each', ', declare larger buckets'],
}

/** Warns, once a process, of an index that guesses give away; `isMixed`: the application's secret is in it. */
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
