import {
  cpSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { type Child, type Compiled, compileForChildren } from '../../../../test/support/run/child-of-test.js'
import { DataDirectoryInUseError, findLockHolder, LockLostError, lockDataDirectory } from './data-directory-lock.js'

/** Tries once for each directory that it reads, says how it went, and keeps what it won. */
const TAKE = `
import { createInterface } from 'node:readline'
import { lockDataDirectory } from './data-directory-lock.js'
createInterface({ input: process.stdin }).on('line', (directory) => {
  lockDataDirectory(directory).then(
    () => console.log(directory + ' won'),
    (error) => console.log(directory + ' ' + error.name),
  )
})
console.log('ready')
`
const TAKE_AND_EXIT = `
import { lockDataDirectory } from './data-directory-lock.js'
await lockDataDirectory(process.argv[1])
process.exit(0)
`

/** How many directories with a dead lock the tests use up. */
const DEAD = 8

describe('the lock of a data directory', () => {
  let compiled: Compiled
  let folder: string
  let directory: string
  /** Takes the locks of several tests. */
  let holder: Child
  /** Directories whose holder was killed. */
  const dead: string[] = []
  const children: Child[] = []

  beforeAll(async () => {
    compiled = compileForChildren(import.meta.url)
    folder = mkdtempSync(join(tmpdir(), 'eaas-lock-'))
    holder = child(TAKE)
    for (let at = 0; at < DEAD; at++) dead.push(mkdtempSync(join(folder, 'dead-')))
    await killHolder(...dead)
  })
  afterAll(async () => {
    for (const child of children) child.process.kill('SIGKILL')
    await Promise.all(children.map((child) => child.ended))
    compiled.remove()
    rmSync(folder, { recursive: true, force: true })
  })
  beforeEach(() => {
    directory = mkdtempSync(join(folder, 'lock-'))
  })

  function child(script: string, ...args: string[]): Child {
    const started = compiled.start(script, ...args)
    children.push(started)
    return started
  }

  /** Has a process try for a lock once, and waits until it has said how that went. */
  async function attempt(by: Child, wanted: string): Promise<void> {
    by.process.stdin?.write(`${wanted}\n`)
    await Promise.race(['won', 'DataDirectoryInUseError'].map((outcome) => by.printed(`${wanted} ${outcome}`)))
  }

  async function hold(by: Child, held: string): Promise<void> {
    await attempt(by, held)
    expect(by.output()).toContain(`${held} won`)
  }

  /** Has a process take the locks, and kills it. */
  async function killHolder(...held: string[]): Promise<void> {
    const holder = child(TAKE)
    for (const one of held) await hold(holder, one)
    holder.process.kill('SIGKILL')
    await holder.ended
  }

  /** Makes the test's directory one whose holder was killed. */
  function useDead(): void {
    const next = dead.pop()
    if (next === undefined) throw new Error('all of them were used: DEAD must be more')
    directory = next
  }

  function highestLockFile(): string {
    const number = Math.max(
      ...readdirSync(directory)
        .flatMap((name) => /^server\.lock\.(\d+)$/.exec(name)?.[1] ?? [])
        .map(Number),
    )
    return join(directory, `server.lock.${number}`)
  }

  function ownSocket(): string {
    const [name = ''] = readdirSync(directory).filter((name) => name.startsWith('alive-'))
    return join(directory, name)
  }

  it('refuses a second process, naming the first one and what to do', async () => {
    await hold(holder, directory)

    const refusal = await lockDataDirectory(directory).catch((error: unknown) => error)
    expect(refusal).toBeInstanceOf(DataDirectoryInUseError)
    expect(String(refusal)).toContain(`process ${holder.process.pid} `)
    expect(String(refusal)).toContain('Stop that process first')
    expect(await findLockHolder(directory)).toMatchObject({ pid: holder.process.pid })
  })

  it('refuses a second holder within one process', async () => {
    const lock = await lockDataDirectory(directory)
    await expect(lockDataDirectory(directory)).rejects.toThrow(DataDirectoryInUseError)
    await lock.release()
  })

  it('goes to the next process once it is released, and leaves nobody holding it between', async () => {
    for (let round = 0; round < 3; round++) {
      const lock = await lockDataDirectory(directory)
      await lock.release()
      expect(await findLockHolder(directory)).toBeUndefined()
    }
  })

  it('is released by kill -9', async () => {
    useDead()
    expect(await findLockHolder(directory)).toBeUndefined()
    const lock = await lockDataDirectory(directory)
    await lock.release()
  })

  it('is released by an exit without release', async () => {
    await child(TAKE_AND_EXIT, directory).ended
    const lock = await lockDataDirectory(directory)
    await lock.release()
  })

  it('does not believe a recycled pid: a dead lock that names a living process does not block', async () => {
    useDead()
    const file = highestLockFile()
    writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), pid: process.pid }))
    const lock = await lockDataDirectory(directory)
    await lock.release()
  })

  it('does not let in a process whose own pid the lock names, as pid 1 in two containers', async () => {
    await hold(holder, directory)
    const file = highestLockFile()
    writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), pid: process.pid }))
    await expect(lockDataDirectory(directory)).rejects.toThrow(DataDirectoryInUseError)
  })

  it('holds while its process is stopped', async () => {
    await hold(holder, directory)
    onTestFinished(() => void holder.process.kill('SIGCONT'))
    holder.process.kill('SIGSTOP')
    await expect(lockDataDirectory(directory)).rejects.toThrow(DataDirectoryInUseError)
  })

  it('goes to exactly one of many that race for a dead lock', { timeout: 60_000 }, async () => {
    const racers = Array.from({ length: 6 }, () => child(TAKE))
    await Promise.all(racers.map((racer) => racer.printed('ready')))
    for (let round = 0; round < 4; round++) {
      useDead()
      const raced = directory
      await Promise.all(racers.map((racer) => attempt(racer, raced)))
      expect(racers.filter((racer) => racer.output().includes(`${raced} won`))).toHaveLength(1)
    }
  })

  it('goes to exactly one of many that race within one process', async () => {
    useDead()
    const attempts = await Promise.allSettled(Array.from({ length: 20 }, () => lockDataDirectory(directory)))
    const won = attempts.filter((attempt) => attempt.status === 'fulfilled')
    expect(won).toHaveLength(1)
    for (const { value } of won) await value.release()
  })

  it('never gives a number out twice, so a process that slept cannot claim an old one', async () => {
    const first = await lockDataDirectory(directory)
    const taken = highestLockFile()
    await first.release()
    expect(highestLockFile()).toBe(taken)
  })

  it('belongs to the highest number, however far it is from the last', async () => {
    await hold(holder, directory)
    const live = readFileSync(highestLockFile(), 'utf8')
    rmSync(highestLockFile())
    writeFileSync(join(directory, 'server.lock.5'), live)
    await expect(lockDataDirectory(directory)).rejects.toThrow(DataDirectoryInUseError)
    expect(readdirSync(directory)).not.toContain('server.lock.1')
  })

  it('cleans up after dead holders', async () => {
    useDead()
    await killHolder(directory)
    const lock = await lockDataDirectory(directory)
    expect(readdirSync(directory).filter((name) => name.startsWith('server.lock.'))).toHaveLength(1)
    expect(readdirSync(directory).filter((name) => name.startsWith('alive-'))).toHaveLength(1)
    await lock.release()
  })

  it('keeps its socket to the owner', async () => {
    const lock = await lockDataDirectory(directory)
    const socket = readdirSync(directory).find((name) => name.startsWith('alive-')) ?? ''
    expect(statSync(join(directory, socket)).mode & 0o777).toBe(0o600)
    await lock.release()
  })

  it('says what to do about a damaged lock file', async () => {
    writeFileSync(join(directory, 'server.lock.1'), '')
    await expect(lockDataDirectory(directory)).rejects.toThrow(/server\.lock\.1 is damaged\..*delete this file/)
  })

  it.each<[string, RegExp, (file: string) => void]>([
    ['its file is removed', /removed server\.lock\.1/, (file) => rmSync(file)],
    ['its file is changed', /changed server\.lock\.1/, (file) => writeFileSync(file, '{}\n')],
    ['its socket is removed', /removed or exchanged alive-/, () => rmSync(ownSocket())],
    [
      'its socket is exchanged',
      /removed or exchanged alive-/,
      () => {
        const path = ownSocket()
        rmSync(path)
        writeFileSync(path, '')
      },
    ],
    [
      'another process claims the next number',
      /another process took its lock/,
      (file) => cpSync(file, file.replace(/1$/, '2')),
    ],
    ['its directory is moved away', /the directory was moved/, () => renameSync(directory, `${directory}-moved`)],
    [
      'another directory takes the place of its own',
      /another one is in its place/,
      () => {
        renameSync(directory, `${directory}-moved`)
        mkdirSync(directory)
        for (const name of readdirSync(`${directory}-moved`))
          linkSync(join(`${directory}-moved`, name), join(directory, name))
      },
    ],
  ])('is found lost by its holder after %s', async (_, change, take) => {
    const lock = await lockDataDirectory(directory)
    lock.writeDurability('fsync')
    lock.assertHeld()
    take(highestLockFile())
    expect(() => lock.assertHeld()).toThrow(LockLostError)
    expect(() => lock.assertHeld()).toThrow(change)
    await lock.release()
    rmSync(`${directory}-moved`, { recursive: true, force: true })
  })

  it('works in a directory too deep for the path of a unix socket', async () => {
    const deep = join(directory, 'd'.repeat(120))
    mkdirSync(deep)
    const lock = await lockDataDirectory(deep)
    expect(readdirSync(deep).some((name) => name.startsWith('alive-'))).toBe(true)
    await expect(lockDataDirectory(deep)).rejects.toThrow(DataDirectoryInUseError)
    await lock.release()
  })
})
