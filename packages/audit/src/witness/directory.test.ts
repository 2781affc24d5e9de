// The lock of a witness: nothing is saved or signed in a directory that another process may use.
import { rmSync } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import vectors from '../formats/cosignature.vectors.json' with { type: 'json' }
import { readWitnessConfig } from './config.js'
import { createWitness, LostDirectoryError, openWitness, type WitnessFiles } from './directory.js'

let folder: string
let directory: string
let files: WitnessFiles

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-witness-'))
  directory = join(folder, 'witness')
  const config = readWitnessConfig({ EAAS_WITNESS_DIR: directory })
  await createWitness(config, 'witness.example/w1')
  await writeFile(join(directory, 'logs'), vectors.runs[0]?.logs.join('\n') ?? '')
  files = await openWitness(config)
})
afterEach(async () => {
  await files.release()
  await rm(folder, { recursive: true, force: true })
})

const next = () => ({ ...files.state, logs: new Map([['a log', { size: 1, root: new Uint8Array(32) }]]) })
const readStateText = (of = directory) => readFile(join(of, 'state'), 'utf8')

describe('a witness whose directory', () => {
  it('is its own saves its state', async () => {
    files.assertHeld()
    await files.save(next())
    expect(await readStateText()).toContain('a log')
  })

  it('cannot take its state says which file and what to do, and keeps no part of it', async () => {
    await rm(join(directory, 'state'))
    await mkdir(join(directory, 'state'))
    const before = await readdir(directory)
    const message = `${directory}/state cannot be written (EISDIR), and nothing was. Name a path in a folder that exists and that you may write to.`
    await expect(files.save(next())).rejects.toMatchObject({ name: 'WitnessError', message })
    expect(await readdir(directory)).toEqual(before)
  })

  it('has another lock saves nothing', async () => {
    await rm(join(directory, 'server.lock.1'))
    await expect(files.save(next())).rejects.toThrow(LostDirectoryError)
    expect(() => files.assertHeld()).toThrow(LostDirectoryError)
    expect(await readStateText()).not.toContain('a log')
  })

  it('was moved away saves nothing there or in its place', async () => {
    await rename(directory, `${directory}-moved`)
    await expect(files.save(next())).rejects.toThrow(LostDirectoryError)
    expect(await readdir(folder)).toEqual(['witness-moved'])
    expect(await readStateText(`${directory}-moved`)).not.toContain('a log')
  })

  it('is lost while it saves does not say that it has saved', async () => {
    const saving = files.save(next())
    rmSync(join(directory, 'server.lock.1')) // before the save has read or written anything
    await expect(saving).rejects.toThrow(LostDirectoryError)
  })
})
