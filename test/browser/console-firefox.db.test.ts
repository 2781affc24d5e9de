// The console in Firefox, by keyboard alone: signed in, a key made, its entry found; and an export verified.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Browser, firefox, type Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { reportedLog, SIGNED_AT } from '../support/audit/reported-log.js'
import { writeExport } from '../support/audit/written-export.js'
import { findOrInstallFirefox } from '../support/platforms/browsers.js'
import { type Caller, type Service, startService } from '../support/service/service.js'
import { findBarriers } from './barriers.js'

const START_TIMEOUT_MS = 120_000
const executablePath = findOrInstallFirefox()
const isMissing = executablePath === undefined

describe.skipIf(isMissing)(`the console in Firefox${isMissing ? ' (skipped: there is none)' : ''}`, () => {
  let browser: Browser
  let service: Service
  let owner: Caller
  let folder: string

  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'eaas-firefox-'))
    service = await startService({ environment: { EAAS_CONSOLE: 'on' } })
    owner = await service.createTenant({ name: 'acme' })
    // Debian's Firefox speaks WebDriver BiDi, not the protocol of Playwright's own build.
    browser = await firefox.launch({ channel: 'moz-firefox', executablePath: executablePath ?? '' })
  }, START_TIMEOUT_MS)
  afterAll(async () => {
    await browser?.close()
    await service?.close()
    await rm(folder, { recursive: true })
  })

  const open = async (path: string): Promise<Page> => {
    const page = await browser.newPage()
    await page.goto(`${service.url}${path}`)
    return page
  }

  it('makes a key and finds its entry, by keyboard alone', async () => {
    const page = await open('/console')
    await page.getByLabel('API key').waitFor()
    await page.keyboard.press('Tab')
    await page.keyboard.type(owner.secret)
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'New key' }).waitFor()
    while (!(await page.evaluate(() => document.activeElement?.textContent === 'New key')))
      await page.keyboard.press('Tab')
    await page.keyboard.press('Enter')
    await page.getByRole('dialog').waitFor()
    await page.keyboard.type('customers/ada')
    await page.keyboard.press('Enter')
    await page.getByRole('heading', { name: 'customers/ada' }).waitFor()
    await page.keyboard.press('g')
    await page.keyboard.press('l')
    await page.getByRole('table', { name: 'Entries' }).locator('.row-link').first().waitFor()
    await page.keyboard.press('j')
    await page.keyboard.press('Enter')
    await page.locator('tr.opened').waitFor()
    expect(await page.locator('tr.opened').innerText()).toContain('customers/ada')
    expect(await findBarriers(page)).toEqual([])
    await page.close()
  })

  it('verifies an export in its worker', async () => {
    const file = join(folder, 'acme.ndjson')
    await writeFile(file, [...writeExport(reportedLog(), SIGNED_AT)].join(''))
    const page = await open('/console/verify')
    await page.locator('input[type=file]').setInputFiles(file)
    await page.getByRole('button', { name: 'Verify' }).click()
    expect(await page.locator('.report .verdict').innerText()).toMatch(/^The export is valid/)
    await page.close()
  })
})
