// How a group of workers deals with workers that end; with small programs in place of servers.
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { createGroup } from './group.js'

/**
 * Says that it is ready and greeted; with the file named in its second argument, ends soon if it is the worker with that number. Without that
 * file, makes another one with the worker's number at the end of its name.
 */
const PROGRAM = `
import { readFileSync, writeFileSync } from 'node:fs'
const [, , number, file] = process.argv
function look() {
  let named
  try {
    named = readFileSync(file, 'utf8')
  } catch {
    writeFileSync(file + number, '')
  }
  if (named === number) process.exit(7)
}
process.on('message', ({ kind }) => {
  if (kind === 'serving') process.send({ kind: 'greeted' })
  if (kind === 'close') process.exit()
})
process.on('disconnect', () => process.exit())
look()
process.send({ kind: 'ready' })
setInterval(look, 10)
`

/** Says that it is ready; when it closes, hands a head over, and ends once the first worker knows it: that says what it got by its exit code. */
const HANDING = `
const first = process.argv[2] === '1'
let got = 1
process.on('message', (message) => {
  if (message.kind === 'serving') process.send({ kind: 'greeted' })
  if (message.kind === 'close' && !first) process.send({ kind: 'witnessed', heads: [{ last_id: 7 }] })
  if (message.kind === 'remembered') process.exit()
  if (message.kind === 'alone') process.exit(got)
  if (message.kind !== 'witnessed' || !first) return
  if (message.heads[0].last_id === 7) got = 0
  process.send({ kind: 'remembered', from: message.from })
})
process.send({ kind: 'ready' })
setInterval(() => undefined, 1_000)
`

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'eaas-group-'))
  writeFileSync(join(folder, 'worker.mjs'), PROGRAM)
  writeFileSync(join(folder, 'handing.mjs'), HANDING)
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

async function startGroup(mostEnds: number, program = 'worker.mjs') {
  const file = join(folder, `broken-${Math.random()}`)
  const lines: { level: string; details: Record<string, unknown> }[] = []
  let hasGivenUp = false
  const group = createGroup({
    size: 2,
    commandOf: (number) => [join(folder, program), String(number), file],
    onGiveUp: () => {
      hasGivenUp = true
    },
    replacement: { firstPauseMs: 5, longestPauseMs: 20, mostEnds },
    log: (level, details) => lines.push({ level, details }),
  })
  onTestFinished(() => group.kill())
  await group.start()
  await group.greet('http://127.0.0.1:1')
  return { group, file, lines, hasGivenUp: () => hasGivenUp }
}

describe('a group of workers', () => {
  it('replaces a worker that ends, and says so', async () => {
    const { group, file, lines, hasGivenUp } = await startGroup(1_000)
    writeFileSync(file, '2')
    await expect.poll(() => lines.length, { timeout: 20_000 }).toBeGreaterThan(2)
    rmSync(`${file}2`, { force: true })
    rmSync(file)
    await expect.poll(() => existsSync(`${file}2`), { timeout: 20_000 }).toBe(true) // the last one lives
    for (const { level, details } of lines) {
      expect([level, details]).toEqual(['error', expect.objectContaining({ worker: 2, code: 7, signal: null })])
    }
    expect(lines.slice(0, 3).map(({ details }) => details.replaced_in_ms)).toEqual([5, 10, 20])
    expect(hasGivenUp()).toBe(false)
    expect(await group.close()).toBe(0)
  })

  it('hands what a worker witnessed to the first one, and tells it once that knows', async () => {
    const { group } = await startGroup(1_000, 'handing.mjs')
    expect(await group.close()).toBe(0)
  })

  it('gives up when a worker ends again and again, and then ends with a failure', async () => {
    const { group, file, lines, hasGivenUp } = await startGroup(3)
    writeFileSync(file, '1')
    await expect.poll(hasGivenUp, { timeout: 20_000 }).toBe(true)
    expect(lines.map(({ level }) => level)).toEqual(['error', 'error', 'fatal'])
    expect(await group.close()).toBe(1)
    expect(lines).toHaveLength(3)
  })
})
