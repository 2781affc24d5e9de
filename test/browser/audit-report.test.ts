// The report of `eaas-audit report` in a browser, opened from disk: it shows what it has by its own style alone, on a desktop, on a phone, in the dark and on paper.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { writePage } from '../../packages/audit/src/report/page.js'
import { createReportReader } from '../../packages/audit/src/report/report.js'
import { verifyExport } from '../../packages/audit/src/verify/verify-export.js'
import { HOSTILE, reportedLog, SIGNED_AT } from '../support/audit/reported-log.js'
import { publicKey, writeExport } from '../support/audit/written-export.js'
import { inChromium, weakContrasts } from './chromium-pages.js'

let folder: string
let url: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-report-'))
  const reader = createReportReader({ from: '2026-02-01T00:00:00.000Z', to: '2026-07-01T00:00:00.000Z' })
  const lines = [...writeExport(reportedLog(), SIGNED_AT)].map((line) => line.slice(0, -1))
  const verdict = await verifyExport(lines, { publicKey, onEntry: reader.read })
  const files = [{ name: 'acme.ndjson', sha256: 'ab' }]
  const report = reader.report({
    verdict,
    files,
    version: '1.2.3',
    command: 'npx @eaas/audit report',
    names: new Map(),
  })
  const page = writePage(report, { files: ['acme.ndjson'] })
  await writeFile(join(folder, 'report.html'), page)
  url = pathToFileURL(join(folder, 'report.html')).href
})
afterAll(() => rm(folder, { recursive: true, force: true }))

inChromium('a report in a browser', (chromium) => {
  it('is styled by itself, runs no script, loads nothing and complains of nothing', async () => {
    const { page, requests, complaints, close } = await chromium.open(url)
    expect(
      await page.evaluate(() => getComputedStyle(document.querySelector('.verdict') as Element).borderLeftWidth),
    ).toBe('4px')
    expect(await page.evaluate(() => document.scripts.length + document.images.length)).toBe(0)
    expect(requests.map((request) => request.url())).toEqual([url])
    expect(complaints).toEqual([])
    await close()
  })

  it('refuses a script and a style that somebody put in', async () => {
    const { page, complaints, close } = await chromium.open(url)
    const ran = await page.evaluate(() => {
      const script = document.createElement('script')
      script.textContent = 'document.title = "ran"'
      document.body.append(script)
      document.body.insertAdjacentHTML('beforeend', '<p id="put" style="color: rgb(1, 2, 3)">x</p>')
      return [document.title, getComputedStyle(document.querySelector('#put') as Element).color]
    })
    expect(ran[0]).toBe('Audit report')
    expect(ran[1]).not.toBe('rgb(1, 2, 3)')
    expect(complaints.join()).toContain('Content Security Policy')
    await close()
  })

  it('shows hostile names as text', async () => {
    const { page, close } = await chromium.open(url)
    const text = await page.evaluate(() => document.body.innerText)
    expect(text).toContain(HOSTILE.replace('\u202e', '\\u202e').replace('\u0007', '\\u0007'))
    expect(text).toContain('<img src=x onerror=alert(1)>\\u200b\\u0020')
    await close()
  })

  it.each([
    ['a desktop', { viewport: { width: 1280, height: 900 } }],
    ['a phone', { viewport: { width: 375, height: 800 } }],
    ['a dark phone', { viewport: { width: 375, height: 800 }, colorScheme: 'dark' as const }],
  ])('is no wider than %s, but for tables that scroll by themselves', async (_, options) => {
    const { page, close } = await chromium.open(url, options)
    const [width, room] = await page.evaluate(() => [
      document.documentElement.scrollWidth,
      document.documentElement.clientWidth,
    ])
    expect(width).toBeLessThanOrEqual(room ?? 0)
    await close()
  })

  it.each(['light', 'dark'] as const)('has text that stands out from its ground, %s', async (colorScheme) => {
    const { page, close } = await chromium.open(url, { colorScheme })
    expect(await weakContrasts(page)).toEqual([])
    await close()
  })

  it('prints: each section on a page of its own, no table cut off, ids in full', async () => {
    const { page, close } = await chromium.open(url)
    await page.emulateMedia({ media: 'print' })
    const seen = await page.evaluate(() => ({
      breaks: [...document.querySelectorAll('h2')].map((each) => getComputedStyle(each).breakBefore),
      overflow: getComputedStyle(document.querySelector('.wide') as Element).overflowX,
      id: (document.querySelector('.id i') as HTMLElement).offsetWidth,
      links: getComputedStyle(document.querySelector('nav') as Element).display,
    }))
    expect(new Set(seen.breaks)).toEqual(new Set(['page']))
    expect([seen.overflow, seen.id > 0, seen.links]).toEqual(['visible', true, 'none'])
    expect((await page.pdf({ preferCSSPageSize: true })).length).toBeGreaterThan(10_000)
    await close()
  })
})
