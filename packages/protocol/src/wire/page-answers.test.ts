// What pages read without zod is what the schemas of zod read: the same copies, and the same sentences.
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ANSWERS, type Answer, problem, readAnswer } from './answers.js'
import { isPageCall, readBatchResults, readPageAnswer, readProblem } from './page-answers.js'

const ID = '00000000-0000-4000-8000-000000000000'
const DEK = btoa('\u0007'.repeat(32))
const WRAPPED = { wrapped_key: 'AAAA', key_id: ID, key_version: 1 }
const OF_CALLS = {
  wrap: WRAPPED,
  unwrap: { dek: DEK, key_id: ID, key_version: 2 },
  rewrap: WRAPPED,
  indexSecret: { secret: DEK, key_id: ID },
  hash: { hash: 'af'.repeat(32), key_id: ID },
} as const
const PROBLEM = {
  type: 'about:blank',
  title: 'Forbidden',
  status: 403,
  detail: 'no',
  code: 'E_FORBIDDEN',
  retry_after: 3,
}
const RESULTS = {
  results: [
    { status: 200, body: { dek: DEK } },
    { status: 403, body: PROBLEM },
  ],
}

interface Pair {
  name: string
  honest: object
  schema: Answer
  read: (value: unknown) => unknown
}
const PAIRS: Pair[] = [
  ...(Object.keys(OF_CALLS) as (keyof typeof OF_CALLS)[]).map((name) => ({
    name,
    honest: OF_CALLS[name],
    schema: ANSWERS[name],
    read: (value: unknown) => readPageAnswer(name, value),
  })),
  { name: 'a problem', honest: PROBLEM, schema: problem, read: readProblem },
  { name: 'a batch', honest: RESULTS, schema: ANSWERS.batch, read: readBatchResults },
]

/** The copy that was read, or the sentence that refuses the value. */
function verdict(read: (value: unknown) => unknown, value: unknown): unknown {
  try {
    return read(value)
  } catch (error) {
    return String(error)
  }
}

const odd = fc.oneof(
  fc.constantFrom(null, undefined, '', 'x', 0, 1, 2, -1, 1.5, 2 ** 31, 2 ** 53, true, [], {}, ID, DEK, 'AAAA', 'AAA'),
  fc.constantFrom(`${ID}\n`, ID.toUpperCase(), 'af'.repeat(31), `${'af'.repeat(32)}\n`, 'A'.repeat(1_028), [ID], '7'),
  fc.constantFrom([{ status: 200 }], [{ status: '200', body: 1 }], [{ status: 2.5 }], [null], [[]], [{ body: 1 }]),
)

describe.each(PAIRS)('$name', ({ honest, schema, read }) => {
  const both = (value: unknown) => [verdict(read, value), verdict((one) => readAnswer(schema, one), value)] as const

  it('is read, without unknown members', () => {
    expect(read(honest)).toEqual(honest)
    expect(read({ ...honest, more: 1 })).toEqual(honest)
  })

  it.each([null, undefined, [], 'x', 7, [honest], {}])('is read as zod reads it, of %j', (value) => {
    const [own, zods] = both(value)
    expect(own).toEqual(zods)
    expect(own).toMatch(/^Error: /)
  })

  it('is read as zod reads it, with any of its members wrong or missing', () => {
    const changes = fc.dictionary(fc.constantFrom(...Object.keys(honest), 'more', 'toString'), odd, { maxKeys: 3 })
    const lacking = fc.constantFrom(...Object.keys(honest), undefined)
    fc.assert(
      fc.property(changes, lacking, (changed, without) => {
        const value: Record<string, unknown> = { ...honest, ...changed }
        if (without !== undefined) delete value[without]
        const [own, zods] = both(value)
        expect(own).toEqual(zods)
      }),
      { numRuns: 2_000 },
    )
  })
})

it('reads no other call', () => {
  expect(Object.keys(ANSWERS).filter((id) => isPageCall(id as keyof typeof ANSWERS))).toEqual(Object.keys(OF_CALLS))
  expect(isPageCall('toString' as 'wrap')).toBe(false)
})
