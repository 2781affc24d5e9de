// What a follower takes for purged: only what the log that the server signed says itself.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { cutExport, type Draft, TENANT, writeExport } from '../../../../../test/support/audit/written-export.js'
import { CommandError } from '../files.js'
import type { Batch } from './deliver.js'
import { followService } from './service-log.js'

const SIGNED_AT = '2026-07-02T00:00:00.000Z'
const PURGED_THROUGH = 3
const draft = (action: string, metadata: Draft['metadata'] = null): Draft => ({
  action,
  created_at: SIGNED_AT,
  metadata,
})
const log = [...Array(4).fill(draft('usage.doubled')), draft('audit.purge', { purged_through: PURGED_THROUGH })]
const lines = [...writeExport(log, SIGNED_AT)]

/** Follows the log behind entry 1, of which a service exports only what stands behind another entry. */
async function followFrom(after_id: number) {
  const [, exported = ''] = cutExport(lines, [after_id], SIGNED_AT)
  const { checkpoint } = JSON.parse(lines.at(-1) ?? '')
  const http = createServer(({ url = '' }, response) => {
    response.end(url.startsWith('/v1/audit/export') ? exported : JSON.stringify({ checkpoint }))
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void http.close())
  const url = new URL(`http://127.0.0.1:${(http.address() as AddressInfo).port}`)
  const told: string[] = []
  const batches: Batch[] = []
  await followService({ url, readApiKey: async () => 'key', publicKey: undefined }, 1, {
    cursor: new Map(),
    signal: new AbortController().signal,
    tell: (line) => void told.push(line),
    run: async (read) => void batches.push(await read()),
  })
  return { told, ids: batches.flatMap(({ entries }) => entries.map(({ id }) => id)) }
}

it.each([
  ['says that it was purged through that entry', PURGED_THROUGH],
  ['was purged further while the export was made', PURGED_THROUGH - 1],
])('is what an export begins behind, of a log that %s', async (_, after_id) => {
  const { told, ids } = await followFrom(after_id)
  expect(told).toContain(`entries 2 to ${after_id} of the log ${TENANT} were purged and are left out`)
  expect(ids).toEqual([3, 4, 5].slice(after_id - 2))
})

it('is nothing that somebody left out on the way, which ends the command', async () => {
  const followed = followFrom(PURGED_THROUGH + 1)
  await expect(followed).rejects.toThrow(CommandError)
  await expect(followed).rejects.toThrow('the export lacks entries 2 to 4, and no audit.purge in it says')
})
