// What becomes of the socket that a process left, and of what others have beside it.
import { linkSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { claimSocketFile } from './start.js'

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'eaas-socket-'))
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

/** Leaves a socket that nobody listens on, as a process does that is killed. */
async function leaveSocket(path: string): Promise<void> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(`${path}.first`, resolve))
  linkSync(`${path}.first`, path)
  await new Promise((resolve) => server.close(resolve))
}

it('removes the socket of a process that ended, and nothing that a process of the same id took aside', async () => {
  const path = join(folder, 'eaas.sock')
  await leaveSocket(path)
  const aside = `eaas.sock.${process.pid}`
  writeFileSync(join(folder, aside), 'of the first process of another container')
  await claimSocketFile(path)
  expect(readdirSync(folder)).toEqual([aside])
  expect(readFileSync(join(folder, aside), 'utf8')).toMatch(/^of the first/)
})

it('leaves a socket that a process listens on', async () => {
  const path = join(folder, 'eaas.sock')
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(path, resolve))
  await expect(claimSocketFile(path)).rejects.toThrow('another process listens there')
  expect(readdirSync(folder)).toEqual(['eaas.sock'])
  await new Promise((resolve) => server.close(resolve))
})
