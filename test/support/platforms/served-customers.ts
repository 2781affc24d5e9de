// What the applications of servers.md answer, and what they store.
import { expect } from 'vitest'
import type { RunningApp } from './page-app.js'

/** Adds a customer once, finds it in another spelling, and looks at the table. */
export async function expectCustomers({ url, rows }: RunningApp): Promise<void> {
  const ask = async (path: string, body: unknown) => {
    const headers = { 'content-type': 'application/json' }
    const response = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
    const text = await response.text()
    return {
      status: response.status,
      body: text === '' || response.status >= 400 ? undefined : (JSON.parse(text) as unknown),
    }
  }
  const ada = { id: 1, name: 'Ada Lovelace', email: 'Ada@example.org' }
  const added = await ask('/customers', { name: ada.name, email: ada.email })
  expect([added.status, added.body]).toEqual([expect.toBeOneOf([200, 201]), ada])
  expect((await ask('/customers', { name: 'Another', email: 'ADA@example.org' })).status).toBe(409)
  expect(await ask('/customers/search', { email: ' ada@EXAMPLE.org' })).toEqual({ status: 200, body: ada })
  expect((await ask('/customers/search', { email: 'ben@example.org' })).status).toBe(404)
  await expectSealed(await rows('customers'))
}

/** One row, whose values are sealed and whose index is a hash. */
export async function expectSealed(rows: readonly Record<string, unknown>[]): Promise<void> {
  const sealed = expect.stringMatching(/^eaas\.2\./)
  const index = expect.stringMatching(/^[0-9a-f]{64}$/)
  expect(rows).toEqual([{ id: expect.anything(), name: sealed, email: sealed, email_index: index }])
  expect(JSON.stringify(rows)).not.toMatch(/lovelace|example\.org/i)
}
