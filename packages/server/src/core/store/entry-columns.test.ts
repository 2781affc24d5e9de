// The arrays that carry the entries of an append to PostgreSQL.

import { randomBytes } from 'node:crypto'
import { setImmediate as turn } from 'node:timers/promises'
import type { ChainedEntry } from '@eaas/audit/formats'
import { describe, expect, it } from 'vitest'
import { writeColumns } from './entry-columns.js'

const entry = (changes: Partial<ChainedEntry> = {}): ChainedEntry => ({
  tenant_id: '6f1c2f6e-6e0d-4a57-8d51-4c0f6a3e0b11',
  id: 1,
  action: 'key.wrap',
  key_id: null,
  key_version: null,
  actor: 'system',
  ip_address: null,
  metadata: null,
  created_at: '2026-01-01T00:00:00.000Z',
  hash: randomBytes(32),
  mac: randomBytes(32),
  ...changes,
})

describe('the columns of entries', () => {
  it('are arrays of PostgreSQL, with null beside the text null, and quotes and backslashes escaped', async () => {
    const bytes = Uint8Array.from({ length: 64 }, (_, at) => at)
    const columns = await writeColumns([
      { entries: [entry({ hash: bytes.subarray(32), mac: bytes.subarray(0, 2) })] },
      {
        entries: [
          entry({ id: 2, key_version: 7, metadata: '{"a":"\\"b,c}"}', actor: 'null', hash: bytes.subarray(0, 1) }),
        ],
      },
    ])
    expect(columns).toMatchObject({
      append: '{0,1}',
      id: '{1,2}',
      action: '{"key.wrap","key.wrap"}',
      key_id: '{null,null}',
      key_version: '{null,7}',
      actor: '{"system","null"}',
      metadata: '{null,"{\\"a\\":\\"\\\\\\"b,c}\\"}"}',
      hash: `{"\\\\x${Buffer.from(bytes.subarray(32)).toString('hex')}","\\\\x00"}`,
      mac: expect.stringMatching(/^\{"\\\\x0001","\\\\x[0-9a-f]{64}"\}$/),
    })
  })

  it('are written in stretches if there are many: other calls run in between', async () => {
    let turns = 0
    let isDone = false
    const counting = (async () => {
      while (!isDone) {
        await turn()
        turns += 1
      }
    })()
    await writeColumns([{ entries: Array.from({ length: 30_000 }, () => entry()) }])
    isDone = true
    await counting
    expect(turns).toBeGreaterThan(2)
  })
})
