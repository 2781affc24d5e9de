// The file of a backup, read whole and without its end.
import { randomBytes } from 'node:crypto'
import { mkdtemp, open, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createWriter, openBackup } from './backup-file.js'

const LINES = Array.from({ length: 2_000 }, () => `${randomBytes(50).toString('hex')}\n`)
let folder: string
let whole: Buffer

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-backup-file-'))
  const file = await open(join(folder, 'whole'), 'wx')
  const write = await createWriter([])
  await write(file, Readable.from(LINES))
  await file.close()
  whole = await readFile(join(folder, 'whole'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

it('is read as it was written', async () => {
  expect(await text(await openBackup(join(folder, 'whole'), undefined))).toBe(LINES.join(''))
})

it('is not written where its rows cannot be read', async () => {
  const file = await open(join(folder, 'failing'), 'wx')
  async function* failing() {
    yield* LINES
    throw new Error('no more rows')
  }
  const write = await createWriter([])
  await expect(write(file, failing())).rejects.toThrow('no more rows')
  await file.close()
})

it.each([30, 60_000, 70_000, 100_000, -1])(
  'that is not encrypted and ends at byte %d is refused with a sentence',
  async (end) => {
    const cut = join(folder, 'cut')
    await writeFile(cut, whole.subarray(0, end))
    await expect(openBackup(cut, undefined).then(text)).rejects.toThrow('The backup was changed or cut short.')
  },
)
