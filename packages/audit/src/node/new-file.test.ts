// Files that are there whole or not at all, and what is said of one that is not.
import { link, mkdtemp, readdir, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { createFile, explainUnwritten } from './new-file.js'

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

describe('a file that was not written', () => {
  it('says what is full, and that nothing was written', () => {
    const error = Object.assign(new Error('no space left on device'), { code: 'ENOSPC', syscall: 'write' })
    expect(explainUnwritten('/etc/eaas/kit.age', error)).toBe(
      '/etc/eaas/kit.age cannot be written (ENOSPC), and nothing was. The disk of /etc/eaas is full: make room there, or name another path.',
    )
  })

  it.each([
    { code: 'ECONNREFUSED', syscall: 'connect' },
    { code: 'EPIPE', syscall: 'write' },
    { code: 'ECONNRESET', syscall: 'write' },
  ])('is not blamed for what failed while its text was made: $syscall $code', (failure) => {
    const error = Object.assign(new Error('failed'), failure)
    expect(() => explainUnwritten('/etc/eaas/kit.age', error)).toThrow(error)
  })
})
