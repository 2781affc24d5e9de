// `npm run example:web-app` as a newcomer runs it. On the built packages. It checks the answers of its application itself.
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type GuardedDir, guardedDir } from '../support/run/guarded-dir.js'
import { IS_SLOW_RUN } from '../support/run/rounds.js'
import { interruptProgram, runProgram } from './program.js'

const main = fileURLToPath(new URL('../../examples/web-app/main.mjs', import.meta.url))
const TIMEOUT_MS = 120_000

let dir: GuardedDir
beforeAll(() => {
  dir = guardedDir('eaas-test-web-app')
})
afterAll(() => dir.remove())

describe('the web application', { timeout: TIMEOUT_MS }, () => {
  it('answers as it should, stores nothing readable, and goes on after a rotation', async () => {
    const { code, out, err } = await runProgram({ main, folder: dir.path, hasOwnPglite: true })
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toContain('1 row was encrypted, and 0 are left')
    expect(out).toContain('2 rows are under version 2 now')
    expect(out).toMatch(/eaas\.2\./)
    expect(out).toMatch(/All answers were as they should be\.\n$/)
  })

  // What ends an example is the same in all of them, and the demo's tests have it every time.
  it.runIf(IS_SLOW_RUN)('leaves nothing behind when it is interrupted', async () => {
    expect(await interruptProgram({ main, folder: dir.path, hasOwnPglite: true }, 'SIGINT', /Create the tables/)).toBe(
      130,
    )
  })
})
