import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { createDirectory } from './create-directory.js'

const folder = mkdtempSync(join(tmpdir(), 'eaas-create-directory-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

describe('a directory that is created', () => {
  it('has its missing parents, all for their owner alone, and the first of them is told', () => {
    expect(createDirectory(join(folder, 'a/b/c'))).toBe(join(folder, 'a'))
    for (const path of ['a', 'a/b', 'a/b/c']) expect(statSync(join(folder, path)).mode & 0o777).toBe(0o700)
    expect(createDirectory(join(folder, 'a/b/d'))).toBe(join(folder, 'a/b/d'))
  })

  it('is left as it is if it is there, also behind a link', () => {
    mkdirSync(join(folder, 'there'))
    chmodSync(join(folder, 'there'), 0o755)
    symlinkSync('there', join(folder, 'link'))
    for (const path of ['there', 'link', 'there/', '/']) expect(createDirectory(join(folder, path))).toBeUndefined()
    expect(createDirectory('/')).toBeUndefined()
    expect(statSync(join(folder, 'there')).mode & 0o777).toBe(0o755)
  })

  it.each([
    ['a file', 'file', 'EEXIST'],
    ['below a file', 'file/below/it', 'ENOTDIR'],
    ['a link to nothing', 'nothing', 'EEXIST'],
    ['below a link to nothing', 'nothing/below', 'EEXIST'],
  ])('is not made of %s', (_, path, code) => {
    writeFileSync(join(folder, 'file'), '')
    if (!existsSync(join(folder, 'nothing'))) rmSync(join(folder, 'nothing'), { force: true })
    symlinkSync('none', join(folder, 'nothing'))
    expect(() => createDirectory(join(folder, path))).toThrow(expect.objectContaining({ code }))
  })

  it.runIf(process.platform === 'linux')('is refused at once where the kernel makes none: below /proc', () => {
    for (const path of ['/proc/none', '/proc/none/below/it']) {
      expect(() => createDirectory(path)).toThrow(expect.objectContaining({ code: 'ENOENT' }))
    }
  })
})
