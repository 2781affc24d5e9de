// A page of tenants for the operator.
import { expect, it } from 'vitest'
import type { Context } from '../core/runner/operation.js'
import { listTenants } from './operator-endpoints.js'

/** Longer than one stretch of long work, in milliseconds. */
const ROW_MS = 1

/** The row of a tenant whose audit key does not open, and takes long to. */
function slowRow(at: number) {
  return {
    tenant_id: `tenant ${at}`,
    get wrapped_audit_key() {
      for (const until = performance.now() + ROW_MS; performance.now() < until; );
      return new Uint8Array()
    },
  }
}

it('tenants are authenticated in stretches, between which other calls run', async () => {
  const rows = Array.from({ length: 10 }, (_, at) => slowRow(at))
  const services = { sql: () => rows, storeKeys: { current: 1, keys: new Map() } }
  const context = { services, caller: { actor: 'o' } } as unknown as Context
  const { release } = await listTenants({ limit: 10, offset: 0 })(context)
  let [turns, isOver] = [0, false]
  const count = () => {
    turns += 1
    if (!isOver) setImmediate(count)
  }
  setImmediate(count)
  const page = await release({})
  isOver = true
  expect(page).toEqual({ tenants: [], count: 0, tampered: rows.map(({ tenant_id }) => tenant_id) })
  expect(turns).toBeGreaterThanOrEqual(9)
})
