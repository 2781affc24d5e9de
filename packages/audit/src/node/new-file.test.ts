// Files that are there whole or not at all, and what is said of one that is not.
import { link, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { createFile } from './new-file.js'

vi.mock('node:fs/promises', async (original) => {
  const actual = await original<typeof import('node:fs/promises')>()
  return { ...actual, link: vi.fn(actual.link) }
})

describe('a file on a disk without links', () => {
  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'eaas-new-file-'))
    const failure = Object.assign(new Error(), { code: 'EPERM', syscall: 'link' })
    vi.mocked(link).mockRejectedValue(failure)
  })
  afterAll(async () => {
    vi.mocked(link).mockReset()
    await rm(folder, { recursive: true, force: true })
  })

  it('is created, and never takes the place of another', async () => {
    const path = join(folder, 'kit')
    expect(await createFile(path, () => 'one')).toBe(true)
    expect(await createFile(path, () => 'two')).toBe(false)
    expect([await readFile(path, 'utf8'), (await stat(path)).mode & 0o777]).toEqual(['one', 0o600])
    expect(await readdir(folder)).toEqual(['kit'])
  })
})
