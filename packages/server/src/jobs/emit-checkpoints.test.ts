import { appendFile, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it, onTestFinished, vi } from 'vitest'
import { type KeptLine, STANDARD_OUTPUT } from '../audit/watch/kept-witnesses.js'
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
  await vi.waitFor(() => expect(taken).toEqual(['a', 'b']))
  waiting.shift()?.()
  await vi.waitFor(() => expect(taken).toEqual(['a', 'b', 'c']))
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
