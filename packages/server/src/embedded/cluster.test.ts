import { chmodSync, existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import { createClusterIfAbsent } from './cluster.js'

const node = process.execPath
const folder = mkdtempSync(join(tmpdir(), 'eaas-cluster-'))
afterEach(() => {
  process.execPath = node
  rmSync(folder, { recursive: true })
})

it('says what a creation needs if the process that creates the database is killed', async () => {
  process.execPath = join(folder, 'killed')
  writeFileSync(process.execPath, '#!/bin/sh\nkill -9 $$\n')
  chmodSync(process.execPath, 0o700)
  await expect(createClusterIfAbsent(join(folder, 'postgres'))).rejects.toThrow(
    expect.objectContaining({
      name: 'CreationKilledError',
      message: expect.stringMatching(/was killed \(SIGKILL\), probably .* needs about 800 MB of memory/),
    }),
  )
  expect(existsSync(join(folder, 'postgres'))).toBe(false)
})
