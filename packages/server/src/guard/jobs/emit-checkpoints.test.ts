import { execFileSync } from 'node:child_process'
import { appendFile, mkdtemp, readFile, rm, truncate } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it, onTestFinished, vi } from 'vitest'
import { type KeptLine, STANDARD_OUTPUT } from '../watch/kept-witnesses.js'
import { createLineWriter, isSinkStuck } from './emit-checkpoints.js'

afterEach(() => vi.restoreAllMocks())

const lineOf = (tenant_id: string) => ({ tenant_id }) as KeptLine

it('a line that standard output does not take in time counts as not written, and none follows it until it is taken', async () => {
  const taken: string[] = []
  const waiting: (() => void)[] = []
  vi.spyOn(process.stdout, 'write').mockImplementation(((text: string, done: () => void) => {
    taken.push(JSON.parse(text).tenant_id)
    waiting.push(done)
    return false
  }) as typeof process.stdout.write)
  const write = createLineWriter(STANDARD_OUTPUT, { deadlineMs: 50 })
  const other = createLineWriter(STANDARD_OUTPUT, { deadlineMs: 50 })

  const onWritten = vi.fn()
  await expect(write(lineOf('a'), onWritten)).rejects.toThrow('standard output (EAAS_CHECKPOINT_FILE=-) takes nothing')
  await expect(write(lineOf('b'))).rejects.toThrow('takes nothing')
  await expect(other(lineOf('c'))).rejects.toThrow('takes nothing')
  expect(taken).toEqual(['a'])
  expect([isSinkStuck(), onWritten.mock.calls.length]).toEqual([true, 0])

  waiting.shift()?.()
  await new Promise((resolve) => setImmediate(resolve))
  expect([isSinkStuck(), onWritten.mock.calls.length]).toEqual([false, 1])
  const both = Promise.all(['b', 'c'].map((id) => createLineWriter(STANDARD_OUTPUT)(lineOf(id))))
  await expect.poll(() => taken).toEqual(['a', 'b'])
  waiting.shift()?.()
  await expect.poll(() => taken).toEqual(['a', 'b', 'c'])
  waiting.shift()?.()
  await both
})

it('a line begins on a line of its own, whoever left the one before it cut short', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'eaas-checkpoints-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'checkpoints')
  const write = createLineWriter(file)
  await write(lineOf('a'))
  await appendFile(file, '{"tenant_id":"b') // as another writer whose disk was full
  await write(lineOf('c'))
  await createLineWriter(file)(lineOf('d'))
  expect((await readFile(file, 'utf8')).split('\n')).toEqual([
    '{"tenant_id":"a"}',
    '{"tenant_id":"b',
    '{"tenant_id":"c"}',
    '{"tenant_id":"d"}',
    '',
  ])
})

// Only root can mount a file system that is as small as this.
it.skipIf(process.getuid?.() !== 0)('leaves no part of a line on a disk that is full', async ({ skip }) => {
  const folder = await mkdtemp(join(tmpdir(), 'eaas-full-disk-'))
  onTestFinished(() => rm(folder, { recursive: true, force: true }))
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', folder], { stdio: 'ignore' })
  } catch {
    return skip('this system mounts no tmpfs')
  }
  onTestFinished(() => void execFileSync('umount', ['-l', folder]))
  const file = join(folder, 'checkpoints')
  const line = { tenant_id: 'x'.repeat(3000) } as unknown as KeptLine
  const write = createLineWriter(file)
  await write(line)
  const one = await readFile(file, 'utf8')
  const rest = join(folder, 'rest')
  await appendFile(rest, Buffer.alloc(65_536)).catch(() => undefined)
  await expect(write(line)).rejects.toMatchObject({ code: 'ENOSPC' })
  expect(await readFile(file, 'utf8')).toBe(one)
  await truncate(rest, 0)
  await write(line)
  expect(await readFile(file, 'utf8')).toBe(one + one)
})
