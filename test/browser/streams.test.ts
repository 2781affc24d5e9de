// A file that a user chose in a page: encrypted and decrypted as a stream in Chromium, while the page stays usable.
import { randomBytes } from 'node:crypto'
import { closeSync, openSync, writeSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type GuardedDir, guardedDir } from '../support/run/guarded-dir.js'
import { rounds } from '../support/run/rounds.js'
import { inChromium } from './chromium-pages.js'

const MIB = 1_048_576
const SIZE_MIB = rounds(16, 200)

inChromium('a page', ({ open, longestShare }) => {
  let dir: GuardedDir
  let server: Server
  let page: Page

  beforeAll(async () => {
    dir = guardedDir('eaas-test-browser-streams')
    server = await serve(await bundle())
    const opened = await open(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
    page = opened.page
    await page.waitForFunction(() => 'streams' in globalThis)
    await page.locator('input').setInputFiles(writeFile(join(dir.path, 'chosen.bin')))
  }, 120_000)
  afterAll(async () => {
    await page?.close()
    await new Promise((resolve) => server?.close(resolve))
    await dir?.remove()
  })

  it('is held up by one long task: what is measured below', async () => {
    const holdUp = () =>
      page.evaluate(() => {
        let sum = 0
        for (let at = 0; at < 100_000_000; at++) sum += at
        return sum
      })
    const longest = await longestShare(page, async () => expect(await holdUp()).toBeGreaterThan(0))
    expect(longest).toBeGreaterThan(0.5)
  })

  it(`encrypts and decrypts a file of ${SIZE_MIB} MiB in many tasks, of which none holds up the page`, async () => {
    let found: unknown
    const longest = await longestShare(page, async () => {
      found = await page.evaluate(() => globalThis.streams.throughStreams())
    })
    const bytes = SIZE_MIB * MIB
    expect(found).toEqual({ bytes, isSame: true, isEndSame: true, stored: 512 + bytes + 16 * (bytes / 65_536) })
    expect(longest).toBeLessThan(0.25)
  })

  it('reads no more of a file once the reader of its stream has cancelled', async () => {
    expect(await page.evaluate(() => globalThis.streams.cancelEarly())).toBeLessThan(4 * MIB)
  })
})

async function bundle(): Promise<string> {
  const entry = fileURLToPath(new URL('./streams-page.ts', import.meta.url))
  const { outputFiles } = await build({ entryPoints: [entry], bundle: true, format: 'esm', write: false })
  return outputFiles[0]?.text ?? ''
}

async function serve(script: string): Promise<Server> {
  const html = '<!doctype html><input type="file"><script type="module" src="/page.js"></script>'
  const server = createServer(({ url }, response) => {
    const isScript = url === '/page.js'
    response.writeHead(200, { 'content-type': isScript ? 'text/javascript' : 'text/html' })
    response.end(isScript ? script : html)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return server
}

function writeFile(path: string): string {
  const file = openSync(path, 'w')
  for (let mib = 0; mib < SIZE_MIB; mib++) writeSync(file, randomBytes(MIB))
  closeSync(file)
  return path
}
