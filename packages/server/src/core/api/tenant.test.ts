// What a tenant used is summed in turn with its searches of the log.
import { expect, it } from 'vitest'
import type { Context } from '../runner/operation.js'
import { createSearchPlaces } from '../runner/work-gate.js'
import { readUsage } from './tenant.js'

const settled = () => new Promise((resolve) => setImmediate(resolve))

/** A context whose statements end when they are told to. */
function makeContext() {
  const statements: (() => void)[] = []
  const services = {
    sql: () => new Promise((resolve) => statements.push(() => resolve([]))),
    now: () => 0,
    unrecordedCalls: { flush: async () => undefined },
    inSearchPlace: createSearchPlaces(),
  }
  const context = { state: { tenant: { tenant_id: 't' } }, services } as unknown as Context
  const read = async (signal?: AbortSignal) => (await readUsage({}, signal)(context)).release({})
  return { statements, read }
}

it('the usage of a tenant is read by one call after another', async () => {
  const { statements, read } = makeContext()
  const answers = [read(), read()]
  await settled()
  expect(statements).toHaveLength(1)
  const isOver = Promise.all(answers).then(() => true)
  while (!(await Promise.race([isOver, settled()]))) for (const end of statements) end()
  for (const answer of answers) expect(await answer).toMatchObject({ month: '1970-01', operations: {} })
})

it('the usage of a tenant is not read for a caller that is gone', async () => {
  const { statements, read } = makeContext()
  await expect(read(AbortSignal.abort())).rejects.toMatchObject({ code: 'E_UNAVAILABLE' })
  expect(statements).toEqual([])
})
