// A file of any size passes through the streams in flat memory: measured in a process of its own, as the system counts it.
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { build } from 'esbuild'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type GuardedDir, guardedDir } from '../support/run/guarded-dir.js'
import { rounds } from '../support/run/rounds.js'

const MIB = 1_048_576
const SIZE_MIB = rounds(192, 1_024)
/** What a stream that kept its bytes would exceed many times. */
const MAX_GROWN_MIB = 64

let dir: GuardedDir
beforeAll(async () => {
  dir = guardedDir('eaas-test-streams')
  const entry = fileURLToPath(new URL('./through-streams.ts', import.meta.url))
  const outfile = join(dir.path, 'through-streams.mjs')
  await build({ entryPoints: [entry], bundle: true, platform: 'node', format: 'esm', target: 'node20', outfile })
})
afterAll(() => dir.remove())

describe('a stream', () => {
  it(`of ${SIZE_MIB} MiB is encrypted and decrypted in at most ${MAX_GROWN_MIB} MiB more than one of 32 MiB`, async () => {
    const program = join(dir.path, 'through-streams.mjs')
    const { stdout } = await promisify(execFile)(process.execPath, [program, String(SIZE_MIB)])
    const { grownMiB, ...found } = JSON.parse(stdout)
    expect(found).toEqual({ bytes: SIZE_MIB * MIB, isSame: true })
    expect(grownMiB).toBeLessThanOrEqual(MAX_GROWN_MIB)
  })
})
