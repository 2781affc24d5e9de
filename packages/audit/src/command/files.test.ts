// Files that a command is given.
import { open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { expect, it, onTestFinished } from 'vitest'
import { createNewBy, openGiven, readGiven } from './files.js'

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

/** Sets properties of this process's stream for one test. */
function replace(name: 'stdin' | 'stdout', stream: object): void {
  const own = Object.getOwnPropertyDescriptor(process, name)
  Object.defineProperty(process, name, { value: stream, configurable: true })
  onTestFinished(() => void (own && Object.defineProperty(process, name, own)))
}

it('- is standard input: the same text for each option that names it, and one stream', async () => {
  replace('stdin', Readable.from([Buffer.from('{"a":'), Buffer.from('1}')]))
  expect(await Promise.all([readGiven('-'), readGiven('-')])).toEqual(['{"a":1}', '{"a":1}'])
  await expect(openGiven('-')).rejects.toThrow('standard input is read once')
  replace('stdin', Object.assign(Readable.from([]), { isTTY: true }))
  await expect(readGiven('-')).rejects.toThrow('standard input is a terminal')
})

it('a terminal gets text, and no other data: nothing is made for it', async () => {
  const written: unknown[] = []
  const write = (chunk: unknown, done: () => void) => {
    written.push(chunk)
    done()
  }
  replace('stdout', { isTTY: true, write })
  const made = createNewBy('-', () => expect.unreachable(), { isText: false })
  await expect(made).rejects.toThrow('standard output is a terminal')
  expect(await createNewBy('-', async (sink) => [await sink.write('text'), 7][1])).toBe(7)
  expect(written).toEqual(['text'])
})
