// Files that a command is given.
import { open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { readGiven } from './files.js'

it('a file that is too long to be read is named, with what to give instead', async () => {
  const path = join(tmpdir(), `eaas-long-${process.pid}`)
  const file = await open(path, 'w')
  await file.truncate(257 * 1_048_576) // takes no space
  await file.close()
  try {
    await expect(readGiven(path)).rejects.toThrow(`${path} is longer than 256 MiB`)
  } finally {
    await rm(path)
  }
})
