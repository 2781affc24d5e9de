// Limits that take too long to reach over HTTP.
import { MAX_KEY_VERSIONS } from '@eaas/protocol'
import { describe, expect, it } from 'vitest'
import type { Context } from '../runner/operation.js'
import { rotateKey, rotateKeyIfDue } from './key-rotation.js'
import { Paged, readPages } from './pages.js'

describe('a key', () => {
  it('has 4,000 versions at most, however it is rotated', async () => {
    const row = {
      key_id: 'k',
      status: 'active',
      current_version: MAX_KEY_VERSIONS,
      next_rotation_at: '2026-01-01',
    }
    const state = { tenant: { tenant_id: 't', status: 'active' }, findKey: async () => ({ row, versions: new Map() }) }
    const context = { state, services: { now: () => Date.parse('2026-02-01') } } as unknown as Context
    for (const rotate of [rotateKey, rotateKeyIfDue]) {
      await expect(rotate({ key_id: 'k' })(context)).rejects.toMatchObject({ code: 'E_LIMIT' })
    }
  })
})

describe('a long list', () => {
  it.each([
    [0, 0, 1_000],
    [0, 600, 600],
    [150, 500, 500],
    [990, 100, 10],
    [1_000, 10, 0],
    [0, 500, 500],
  ])(
    'is read in pages of 200, only the first by its offset: from %d on, %d rows at most (0 is all)',
    async (offset, most, found) => {
      const all = Array.from({ length: 1_000 }, (_, at) => at)
      const pages: { limit: number; offset: number }[] = []
      const read = readPages<number, number>(
        { limit: most || 10_000, offset },
        async ({ after = -1, ...page }) => {
          pages.push(page)
          return all.filter((row) => row > after).slice(page.offset, page.offset + page.limit)
        },
        (row) => row,
      )
      expect(await new Paged('rows', read).whole()).toEqual({ rows: all.slice(offset, offset + found), count: found })
      expect(Math.max(...pages.map(({ limit }) => limit))).toBeLessThanOrEqual(200)
      expect(pages.slice(1).every((page) => page.offset === 0)).toBe(true)
    },
  )
})
