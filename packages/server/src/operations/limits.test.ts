// Limits that take too long to reach over HTTP.
import { Readable } from 'node:stream'
import { MAX_KEY_VERSIONS } from '@eaas/protocol'
import { describe, expect, it } from 'vitest'
import type { Context } from '../runner/operation.js'
import { countExport } from '../runner/running-exports.js'
import { rotateKey, rotateKeyIfDue } from './rotate-key.js'
import { readPages } from './shared/pages.js'

const open = async () => Readable.from(['a line'])
const closed = (stream: Readable) => new Promise((resolve) => stream.once('close', resolve).destroy())

describe('exports', () => {
  it('are two of a tenant at once, and four in all; what has ended leaves room', async () => {
    const streams = [await countExport('a', open), await countExport('a', open)]
    await expect(countExport('a', open)).rejects.toMatchObject({ code: 'E_UNAVAILABLE' })
    streams.push(await countExport('b', open), await countExport('c', open))
    await expect(countExport('d', open)).rejects.toMatchObject({ code: 'E_UNAVAILABLE' })
    for (const stream of streams.splice(0, 1)) await closed(stream)
    streams.push(await countExport('a', open))
    for (const stream of streams) await closed(stream)
  })

  it('that could not begin count no longer', async () => {
    const fail = async () => Promise.reject(new Error('no log'))
    for (let at = 0; at < 5; at++) await expect(countExport('a', fail)).rejects.toThrow('no log')
    await closed(await countExport('a', open))
  })
})

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
      const rows = await readPages<number, number>(
        { limit: most || 10_000, offset },
        async ({ after = -1, ...page }) => {
          pages.push(page)
          return all.filter((row) => row > after).slice(page.offset, page.offset + page.limit)
        },
        (row) => row,
      )
      expect(rows).toEqual(all.slice(offset, offset + found))
      expect(Math.max(...pages.map(({ limit }) => limit))).toBeLessThanOrEqual(200)
      expect(pages.slice(1).every((page) => page.offset === 0)).toBe(true)
    },
  )
})
