// A file that a user chose in a page: encrypted and decrypted as a stream in Chromium, while the page stays usable.
import { randomBytes } from 'node:crypto'
import { closeSync, openSync, writeSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { type Browser, chromium, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findOrInstallChromium } from '../support/chromium.js'
import { type GuardedDir, guardedDir } from '../support/guarded-dir.js'
import { rounds } from '../support/rounds.js'

const MIB = 1_048_576
const SIZE_MIB = rounds(16, 200)
/** What a user notices as a page that hangs. */
const LONG_TASK_MS = 50
const executablePath = findOrInstallChromium()
const title = executablePath === undefined ? 'a page (skipped: there is no Chromium)' : 'a page'

describe.skipIf(executablePath === undefined)(title, () => {
  let dir: GuardedDir
  let server: Server
  let browser: Browser
  let page: Page

  beforeAll(async () => {
    dir = guardedDir('eaas-test-browser-streams')
    const entry = fileURLToPath(new URL('./streams/page.ts', import.meta.url))
    const { outputFiles } = await build({ entryPoints: [entry], bundle: true, format: 'esm', write: false })
    const script = outputFiles[0]?.text ?? ''
    server = createServer(({ url }, response) => {
      const isScript = url === '/page.js'
      response.writeHead(200, { 'content-type': isScript ? 'text/javascript' : 'text/html' })
      response.end(
        isScript ? script : '<!doctype html><input type="file"><script type="module" src="/page.js"></script>',
      )
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    // As root, which containers are, Chromium has no sandbox; it only sees our own page.
    const args = ['--no-sandbox', '--disable-dev-shm-usage']
    browser = await chromium.launch({ executablePath: executablePath ?? '', args, chromiumSandbox: false })
    page = await browser.newPage()
    await page.goto(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    await page.waitForFunction(() => 'streams' in globalThis)
    await page.locator('input').setInputFiles(writeFile(join(dir.path, 'chosen.bin')))
  }, 120_000)
  afterAll(async () => {
    await browser?.close()
    await new Promise((resolve) => server?.close(resolve))
    await dir?.remove()
  })

  it(`encrypts and decrypts a file of ${SIZE_MIB} MiB without a task of ${LONG_TASK_MS} ms`, async () => {
    let found: unknown
    const longest = await longestTask(async () => {
      found = await page.evaluate(() => globalThis.streams.throughStreams())
    })
    const bytes = SIZE_MIB * MIB
    expect(found).toEqual({ bytes, isSame: true, isEndSame: true, stored: 512 + bytes + 16 * (bytes / 65_536) })
    expect(longest).toBeLessThan(LONG_TASK_MS)
  })

  it('reads no more of a file once the reader of its stream has cancelled', async () => {
    expect(await page.evaluate(() => globalThis.streams.cancelEarly())).toBeLessThan(4 * MIB)
  })

  /** The longest task of the page meanwhile, in milliseconds of CPU time: waiting for a machine with other work does not count. */
  async function longestTask(work: () => Promise<void>): Promise<number> {
    await browser.startTracing(page, { categories: ['devtools.timeline', 'disabled-by-default-devtools.timeline'] })
    await work()
    const { traceEvents } = JSON.parse((await browser.stopTracing()).toString()) as {
      traceEvents: { name: string; tdur?: number }[]
    }
    const tasks = traceEvents.filter(({ name }) => name === 'RunTask')
    expect(tasks.length).toBeGreaterThan(0)
    return Math.max(...tasks.map(({ tdur = 0 }) => tdur)) / 1_000
  }
})

function writeFile(path: string): string {
  const file = openSync(path, 'w')
  for (let mib = 0; mib < SIZE_MIB; mib++) writeSync(file, randomBytes(MIB))
  closeSync(file)
  return path
}
