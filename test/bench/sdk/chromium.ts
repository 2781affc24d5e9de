// The SDK against its peers in headless Chromium: one page, served from here.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { type Browser, chromium } from 'playwright-core'
import { findOrInstallChromium } from '../../support/platforms/browsers.js'
import { measureUses } from '../../support/platforms/page-uses.js'
import type { BarRow, Findings } from '../lib/report.js'
import { ratios, spread } from '../lib/rounds.js'
import type { Scene } from '../lib/scene.js'
import { type Measured, textPlot, textTable } from './text.js'

const JOSE = 'jose A256GCM'

export async function measureChromium({ options: { quick, rounds } }: Scene): Promise<Findings> {
  const executablePath = findOrInstallChromium()
  if (executablePath === undefined) return { bars: [], tables: [], plots: [] } // it has said so
  const page = await servePage()
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] })
  try {
    const tab = await browser.newPage()
    await tab.goto(page.url)
    const options = { rounds, targetMs: quick ? 10 : 30 }
    const text: Record<string, Measured> = await tab.evaluate(async (given) => {
      await import('/page.js' as string)
      const page = globalThis as unknown as { measureText(given: object): Promise<Record<string, Measured>> }
      return page.measureText(given)
    }, options)
    const note = `Chromium ${browser.version()}`
    return {
      bars: [...bars(text), ...(await downloads(browser))],
      tables: ['encrypt', 'decrypt'].map((direction) => ({ ...textTable(text, direction, 'Chromium'), note })),
      plots: [textPlot(text, 'encrypt', 'Chromium'), textPlot(text, 'decrypt', 'Chromium')],
    }
  } finally {
    await browser.close()
    await page.close()
  }
}

function bars(text: Record<string, Measured>): BarRow[] {
  return Object.entries(text).flatMap(([size, measured]) =>
    ['encrypt', 'decrypt'].map((direction) => ({
      what: `Chromium: text of ${size} B, ${direction}`,
      against: JOSE,
      measured: spread(ratios(measured[`${JOSE}/${direction}`] ?? [], measured[`eaas/${direction}`] ?? [])),
      ...(Number(size) <= 4_096 ? { atLeast: 1.3 } : {}),
    })),
  )
}

/** What a page loads of the package for one use: KB of its scripts, compressed. */
async function downloads(browser: Browser): Promise<BarRow[]> {
  const open = async (url: string) => {
    const page = await browser.newPage()
    await page.goto(url)
    return page
  }
  const { seal, show } = await measureUses(open, '@eaas/sdk')
  const uses = [['to seal one form', seal, 34.1] as const, ['to show one row', show, 32] as const]
  return uses.map(([use, { bytes, files }, atMost]) => {
    const size = bytes / 1_024
    const measured = { median: size, min: size, max: size }
    return {
      what: `a page loads ${use}`,
      against: '',
      measured,
      unit: 'KB',
      atMost,
      note: `gzip, ${files.length} files`,
    }
  })
}

async function servePage(): Promise<{ url: string; close: () => Promise<void> }> {
  const { outputFiles } = await build({
    entryPoints: [fileURLToPath(new URL('./chromium-page.mjs', import.meta.url))],
    bundle: true,
    format: 'esm',
    target: 'es2022',
    write: false,
    logLevel: 'error',
  })
  const script = outputFiles[0]?.text ?? ''
  const server = createServer(({ url }, response) => {
    const isScript = url === '/page.js'
    response.writeHead(200, { 'content-type': isScript ? 'text/javascript' : 'text/html' })
    response.end(isScript ? script : '<!doctype html><title>bench</title>')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => new Promise((resolve) => server.close(() => resolve())),
  }
}
