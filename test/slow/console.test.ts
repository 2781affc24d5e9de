// The console with many keys and entries, by keyboard alone; and its pictures for the docs.
import { readFileSync, writeFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { inChromium, type OpenedPage } from '../browser/chromium-pages.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

const KEYS = 10_000
const BATCH = 1_000
const START_TIMEOUT_MS = 20 * 60_000
const STEPS = 60

inChromium('the console with 10,000 keys', ({ open }) => {
  let service: Service
  let owner: Caller

  beforeAll(async () => {
    service = await startService({ environment: { EAAS_CONSOLE: 'on' } })
    owner = await service.createTenant({ name: 'acme' })
    for (let from = 0; from < KEYS; from += BATCH) {
      const keys = Array.from({ length: BATCH }, (_, at) => ({ name: `customers/${from + at}` }))
      await owner.call('POST', '/v1/batch/keys', { keys })
    }
  }, START_TIMEOUT_MS)
  afterAll(() => service?.close())

  /** Signs in by keyboard. */
  const signIn = async ({ page }: OpenedPage) => {
    await page.keyboard.press('Tab')
    await page.keyboard.insertText(owner.secret)
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Sign out' }).waitFor()
  }

  /** The long tasks of the page meanwhile, in milliseconds. */
  const longTasks = async ({ page }: OpenedPage, work: () => Promise<void>) => {
    await page.evaluate(() => {
      const tasks: number[] = []
      Object.assign(globalThis, { tasks })
      new PerformanceObserver((list) => tasks.push(...list.getEntries().map(({ duration }) => duration))).observe({
        type: 'longtask',
      })
    })
    await work()
    return page.evaluate(() => (globalThis as unknown as { tasks: number[] }).tasks)
  }

  const scroll = async ({ page }: OpenedPage, step: number) => {
    for (let at = 0; at < STEPS; at += 1) {
      await page.mouse.wheel(0, step)
      await page.waitForTimeout(50)
    }
  }

  it('has some dozens of rows in the document, and scrolls', async () => {
    const opened = await open(`${service.url}/console`)
    const { page } = opened
    await signIn(opened)
    await page.getByText('10,000', { exact: true }).waitFor({ timeout: 120_000 })
    const tasks = await longTasks(opened, () => scroll(opened, 6_000))
    expect(await page.locator('.row-link').count()).toBeLessThan(120)
    await page.keyboard.press('End')
    await page.locator(`[aria-rowindex="${KEYS}"] .row-link`).waitFor()
    expect(await page.locator('.row-link').count()).toBeLessThan(120)
    console.info(`${tasks.length} tasks of over 50 ms, the longest ${Math.max(0, ...tasks)} ms`)
    await opened.close()
  })

  it('reads the log as it is scrolled', async () => {
    const opened = await open(`${service.url}/console#/log`)
    const { page } = opened
    await signIn(opened)
    await page.locator('.row-link').first().waitFor()
    const tasks = await longTasks(opened, () => scroll(opened, 1_500))
    expect(Number(await page.locator('table').getAttribute('aria-rowcount'))).toBeGreaterThan(1_000)
    expect(await page.locator('.row-link').count()).toBeLessThan(120)
    console.info(`${tasks.length} tasks of over 50 ms, the longest ${Math.max(0, ...tasks)} ms`)
    await opened.close()
  })

  it('does all by keyboard: finds a key, opens it, rotates it, goes to the log', async () => {
    const opened = await open(`${service.url}/console`)
    const { page } = opened
    const { keyboard } = page
    await signIn(opened)
    await page.getByText('10,000', { exact: true }).waitFor({ timeout: 120_000 })
    await keyboard.press('/')
    await keyboard.type('customers/4321')
    await expect.poll(() => page.locator('.row-link').count()).toBe(1)
    await page.evaluate(() => (document.activeElement as HTMLElement).blur())
    await keyboard.press('j')
    await keyboard.press('Enter')
    await page.getByRole('heading', { name: 'customers/4321' }).waitFor()
    await page.getByRole('button', { name: 'Rotate' }).focus()
    await keyboard.press('Enter')
    await page.getByRole('dialog').waitFor()
    await keyboard.press('Enter')
    await expect.poll(() => page.getByRole('table', { name: 'Versions' }).locator('tbody tr').count()).toBe(2)
    await keyboard.press('g')
    await keyboard.press('l')
    await page.getByRole('cell', { name: 'key.rotate' }).first().waitFor()
    await keyboard.press('?')
    await page.getByRole('region', { name: 'Keyboard' }).waitFor()
    await opened.close()
  })
})

// `EAAS_TEST_PICTURES=write npm run test:slow -- test/slow/console.test.ts` makes them again.
inChromium('the pictures of the console', ({ open }) => {
  let service: Service
  let owner: Caller
  let folder: URL

  beforeAll(async () => {
    folder = new URL('../../packages/server/docs/images/', import.meta.url)
    service = await startService({ environment: { EAAS_CONSOLE: 'on' } })
    owner = await service.createTenant({ name: 'acme' })
    await live(service, owner)
  }, START_TIMEOUT_MS)
  afterAll(() => service?.close())

  it.each(['keys', 'log', 'rights'])('%s', async (name) => {
    const { page, close } = await open(`${service.url}/console#/${name}`, { viewport: { width: 1_100, height: 560 } })
    await page.getByLabel('API key').fill(owner.secret)
    await page.keyboard.press('Enter')
    await page.locator('tbody tr').first().waitFor()
    const made = await page.screenshot({ animations: 'disabled' })
    const file = new URL(`console-${name}.png`, folder)
    if (process.env.EAAS_TEST_PICTURES === 'write') writeFileSync(file, made)
    expect(sizeOf(readFileSync(file))).toEqual(sizeOf(made))
    await close()
  })
})

/** Does what a shop does, so that the pages have something to show. */
async function live(service: Service, owner: Caller): Promise<void> {
  const names = ['customers/contact', 'customers/notes', 'orders/addresses', 'staff/payroll']
  const keys = await Promise.all(names.map(async (name) => (await owner.call('POST', '/v1/keys', { name })).body.id))
  await owner.call('POST', `/v1/keys/${keys[0]}/rotate`)
  await owner.call('PATCH', `/v1/keys/${keys[0]}/rotation`, { interval_days: 90 })
  await owner.call('DELETE', `/v1/keys/${keys[3]}`)
  const programs: [string, string[]][] = [
    ['web server', ['wrap', 'unwrap', 'hash', 'audit:on_behalf_of']],
    ['nightly report', ['unwrap']],
    ['import', ['wrap']],
    ['auditor', ['audit:read']],
  ]
  const callers = new Map<string, Caller>()
  for (const [name, permissions] of programs) {
    const { body } = await owner.call('POST', '/v1/api-keys', { name, permissions })
    callers.set(name, service.caller(body.secret))
  }
  const dek = Buffer.alloc(32, 7).toString('base64')
  for (let row = 1; row <= 6; row++) {
    const use = { purpose: 'data', context: { model: 'customers', row: String(row) } }
    const path = `/v1/keys/${keys[row % 3]}`
    const { body } = (await callers.get('import')?.call('POST', `${path}/wrap`, { dek, ...use })) ?? {}
    const opener = callers.get(row % 2 ? 'web server' : 'nightly report')
    await opener?.call('POST', `${path}/unwrap`, { wrapped_key: body.wrapped_key, ...use })
  }
}

/** Width and height of a PNG: its first chunk begins with them. */
function sizeOf(png: Buffer): [number, number] {
  return [png.readUInt32BE(16), png.readUInt32BE(20)]
}
