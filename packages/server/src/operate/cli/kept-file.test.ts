// What an export links of a server's own file of checkpoints, whatever others appended to it.
import { createSecretKey } from 'node:crypto'
import { appendFile, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { signCheckpoint } from '@eaas/audit'
import { INSTALLATION_ID } from '@eaas/protocol'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { signingKeyOf } from '../../../../audit/src/node/signing-key.js'
import { readOwnIds } from './kept-file.js'

const signingKey = signingKeyOf(createSecretKey(Buffer.alloc(32, 7)))
let folder: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-kept-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

it('lines that no server wrote are named and left out, and the checkpoints beside them are linked', async () => {
  const file = join(folder, 'checkpoints')
  const stated = { tenant_id: INSTALLATION_ID, hash: new Uint8Array(32), created_at: '2026-01-01T00:00:00.000Z' }
  const line = (last_id: number) =>
    `${JSON.stringify({ checkpoint: signCheckpoint(signingKey, { ...stated, last_id }) })}\n`
  const said = vi.spyOn(process.stderr, 'write').mockReturnValue(true)
  try {
    await appendFile(file, line(4))
    expect(await readOwnIds(file)).toEqual([4])
    expect(said).not.toHaveBeenCalled()
    await appendFile(file, `{"a":1}{"b":2}\nmore\n{"format":"eaas/audit/export/v1"}\n${line(9)}{"checkpoint":"cut`)
    expect(await readOwnIds(file)).toEqual([4, 9])
    expect(said.mock.calls).toEqual([[expect.stringMatching(/has \d lines? that no server wrote; see eaas doctor\n$/)]])
  } finally {
    said.mockRestore()
  }
})
