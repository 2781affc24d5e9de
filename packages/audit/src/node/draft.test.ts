// Drafts of processes that share a folder, and a process id, as the first processes of two containers do.
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { createFileBy, createFolder, replaceFile } from './new-file.js'

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-draft-'))
})
afterEach(() => rm(folder, { recursive: true, force: true }))

it('a file that two processes create is that of one, whole, and the other one is told', async () => {
  const path = join(folder, 'backup')
  let isBegun: () => void = () => undefined
  const begun = new Promise<void>((resolve) => {
    isBegun = resolve
  })
  const one = createFileBy(path, async (file) => {
    await file.writeFile('one begins,')
    isBegun()
    await sleep(100)
    await file.writeFile(' and ends')
  })
  await begun
  const other = createFileBy(path, async (file) => {
    await file.writeFile('other begins')
    await sleep(300)
  })
  expect([await one, await readFile(path, 'utf8')]).toEqual([true, 'one begins, and ends'])
  expect([await other, await readFile(path, 'utf8')]).toEqual([false, 'one begins, and ends'])
  expect(await readdir(folder)).toEqual(['backup'])
})

it('a folder that two processes create has the files of one', async () => {
  const path = join(folder, 'shares')
  const texts = (text: string) => new Map(['a', 'b', 'c'].map((name) => [name, text]))
  const created = await Promise.all(['one', 'other'].map((text) => createFolder(path, texts(text))))
  expect(created.sort()).toEqual([false, true])
  const read = await Promise.all(['a', 'b', 'c'].map((name) => readFile(join(path, name), 'utf8')))
  expect([new Set(read).size, await readdir(folder)]).toEqual([1, ['shares']])
})

it('a file that two processes replace is what one of them wrote', async () => {
  const path = join(folder, 'cursor')
  const texts = ['a', 'b'].map((letter) => letter.repeat(1_000_000))
  await Promise.all(texts.map((text) => replaceFile(path, text)))
  expect(texts).toContain(await readFile(path, 'utf8'))
  expect(await readdir(folder)).toEqual(['cursor'])
})

it('nothing is left of a file that could not be replaced', async () => {
  const path = join(folder, 'cursor')
  await mkdir(path)
  await expect(replaceFile(path, 'x')).rejects.toThrow('EISDIR')
  expect(await readdir(folder)).toEqual(['cursor'])
})
