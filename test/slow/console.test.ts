// The console with many keys and entries, by keyboard alone; and its pictures for the docs.
import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import type { Locator } from 'playwright-core'
import postgres from 'postgres'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { NewTenant } from '../../packages/server/src/operators/tenants.js'
import { inChromium, type OpenedPage } from '../browser/chromium-pages.js'
import { growChain } from '../support/audit/long-chain.js'
import { backend, freshDatabase, type TestDatabase } from '../support/database/database.js'
import { type GuardedDir, guardedDir } from '../support/run/guarded-dir.js'
import { EAAS_AUDIT } from '../support/service/eaas-process.js'
import { type Caller, ROOT_KEY, type Service, startService } from '../support/service/service.js'

const KEYS = 10_000
/** On PostgreSQL; the embedded database has those of the keys alone. */
const ENTRIES = 1_000_000
const MINUTE_MS = 60_000
/** in minutes */
const DAY = 1_440
const DAY_MS = DAY * MINUTE_MS
const BATCH = 1_000
const START_TIMEOUT_MS = 20 * 60_000
const STEPS = 60

inChromium('the console with 10,000 keys and a million entries', ({ open, taskTimes }) => {
  const isGrown = backend() === 'postgres'
  let service: Service
  let owner: Caller

  beforeAll(async () => {
    const database = await freshDatabase('console', { migrated: true })
    const from = Date.now() - 100 * DAY_MS
    const past = await startService({ database, now: () => from })
    const { secret, tenant } = await past.createTenant({ name: 'acme' })
    const ids: string[] = []
    for (let at = 0; at < KEYS; at += BATCH) {
      const keys = Array.from({ length: BATCH }, (_, index) => ({ name: `customers/${at + index}` }))
      const { body } = await past.caller(secret).call('POST', '/v1/batch/keys', { keys })
      ids.push(...body.results.map(({ body }: { body: { id: string } }) => body.id))
    }
    await past.close()
    if (isGrown) await growLog(database, { from, tenant, ids })
    service = await startService({ database, environment: { EAAS_CONSOLE: 'on' } })
    owner = service.caller(secret)
  }, START_TIMEOUT_MS)
  afterAll(() => service?.close())

  /** Signs in by keyboard. */
  const signIn = async ({ page }: OpenedPage) => {
    await page.keyboard.press('Tab')
    await page.keyboard.insertText(owner.secret)
    await page.keyboard.press('Enter')
    await page.getByRole('button', { name: 'Sign out' }).waitFor()
  }

  /** Prints how long the tasks of a page are that scrolls or filters: by the clock, as a user notices, and in CPU time. */
  const measure = async ({ page }: OpenedPage, what: string, work: () => Promise<void>) => {
    await page.evaluate(() => {
      const tasks: number[] = []
      const observer = new PerformanceObserver((list) =>
        tasks.push(...list.getEntries().map(({ duration }) => duration)),
      )
      observer.observe({ type: 'longtask' })
      Object.assign(globalThis, { tasks })
    })
    const times = await taskTimes(page, work)
    const tasks = await page.evaluate(() => (globalThis as unknown as { tasks: number[] }).tasks)
    const describe = (all: readonly number[]) =>
      `${all.filter((ms) => ms > 50).length} of over 50 ms, the longest ${Math.round(Math.max(0, ...all))} ms`
    console.info(`${what}: by the clock ${describe(tasks)}; in CPU time ${describe(times)}`)
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
    await measure(opened, 'the list of keys', () => scroll(opened, 6_000))
    expect(await page.locator('.row-link').count()).toBeLessThan(120)
    await page.keyboard.press('End')
    await page.locator(`[aria-rowindex="${KEYS}"] .row-link`).waitFor()
    expect(await page.locator('.row-link').count()).toBeLessThan(120)
    await opened.close()
  })

  it('reads the log as it is scrolled, filtered, and left for its beginning', async () => {
    const opened = await open(`${service.url}/console#/log`)
    const { page } = opened
    await signIn(opened)
    await page.locator('.row-link').first().waitFor()
    const rows = async () => Number(await page.locator('table').getAttribute('aria-rowcount'))
    const count = async () => Number((await page.locator('.bar .count').innerText()).replaceAll(',', ''))
    if (isGrown) expect(await count()).toBeGreaterThan(ENTRIES)
    await measure(opened, 'the log', () => scroll(opened, 1_500))
    expect(await rows()).toBeGreaterThan(1_000)
    await measure(opened, 'far down', async () => {
      for (let at = 0; at < STEPS; at += 1) {
        await page.keyboard.press('End')
        await page.waitForTimeout(50)
      }
    })
    expect(await rows()).toBeGreaterThan(3_000)
    expect(await page.locator('.row-link').count()).toBeLessThan(120)
    const filter = async (field: Locator, text: string) => {
      await field.fill(text)
      await field.press('Enter')
    }
    const byKey = async () => {
      await filter(page.getByLabel('Key, by its name or id'), 'customers/17')
      await expect.poll(count).toBeLessThan(ENTRIES / 100)
      await page.getByRole('cell', { name: 'customers/17', exact: true }).first().waitFor()
    }
    await measure(opened, 'by key', byKey)
    const byAction = async () => {
      await filter(page.getByLabel('Key, by its name or id'), '')
      await page.getByLabel('Action', { exact: true }).selectOption('key.create')
      await expect.poll(count).toBe(KEYS)
      await scroll(opened, 1_500)
    }
    await measure(opened, 'by action', byAction)
    const toBeginning = async () => {
      await page.getByLabel('Action', { exact: true }).selectOption('')
      await filter(page.getByLabel('Only the entry of this number'), '1')
      await expect.poll(count).toBe(1)
    }
    await measure(opened, 'the first entry', toBeginning)
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

/** What a busy tenant writes in a hundred days, half of it under one key in ten. */
async function growLog(
  database: TestDatabase,
  { from, tenant, ids }: { from: number; tenant: NewTenant; ids: readonly string[] },
): Promise<void> {
  if (database.backend !== 'postgres') throw new Error('long logs are filled on PostgreSQL')
  const sql = postgres(database.url, { max: 1, onnotice: () => undefined })
  try {
    await growChain(sql, {
      tenant_id: tenant.tenant_id,
      rootKey: ROOT_KEY,
      entries: ENTRIES,
      from: from + 1_000,
      to: Date.now() - 60_000,
      draft: (at) => ({
        action: at % 4 === 0 ? 'key.wrap' : 'key.unwrap',
        key_id: ids[at % 2 === 0 ? at % ids.length : (at * 7) % (ids.length / 10)] ?? '',
        key_version: 1,
        actor: tenant.api_key.id,
        ip_address: '192.0.2.7',
        metadata: JSON.stringify({
          'context.model': 'customers',
          'context.row': String(at),
          on_behalf_of: `u${at % 97}`,
        }),
      }),
    })
  } finally {
    await sql.end()
  }
}

// `EAAS_TEST_PICTURES=write npm run test:slow -- test/slow/console.test.ts` makes them again.
inChromium('the pictures of the console', ({ open }) => {
  let service: Service
  let owner: Caller
  let dir: GuardedDir

  beforeAll(async () => {
    dir = guardedDir('eaas-test-pictures')
    let shifted = 100 * DAY_MS
    const now = () => Date.now() - shifted
    service = await startService({ now, environment: { EAAS_CONSOLE: 'on', EAAS_TRUST_PROXY: '127.0.0.1' } })
    owner = await service.createTenant({ name: 'acme' })
    await live(service, owner, (ago) => {
      shifted = ago
    })
  }, START_TIMEOUT_MS)
  afterAll(async () => {
    await service?.close()
    await dir.remove()
  })

  it.each(['keys', 'log'])('%s', async (name) => {
    const { page, close } = await open(`${service.url}/console#/${name}`, {
      viewport: { width: 1_100, height: 480 },
      deviceScaleFactor: 1.5,
      colorScheme: 'light',
    })
    await page.getByLabel('API key').fill(owner.secret)
    await page.keyboard.press('Enter')
    await page.locator('tbody tr').first().waitFor()
    const shown = await page.locator('tbody tr:nth-child(-n+9) td').all()
    const cut = await Promise.all(
      shown.map((cell) => cell.evaluate((td) => td.scrollWidth > td.clientWidth && td.textContent)),
    )
    expect(cut.filter((text) => text !== false)).toEqual([])
    expectPicture(`server/docs/images/console-${name}.png`, await page.screenshot({ animations: 'disabled' }))
    await close()
  })

  it('a report of the same log', async () => {
    writeFileSync(join(dir.path, 'acme.ndjson'), (await owner.call('GET', '/v1/audit/export')).body)
    writeFileSync(join(dir.path, 'operator.key'), (await owner.call('GET', '/v1/audit/checkpoint')).body.public_key)
    const args = ['report', 'acme.ndjson', '--public-key', 'operator.key', '--html', 'acme.html']
    await promisify(execFile)(process.execPath, [EAAS_AUDIT, ...args], { cwd: dir.path })
    const { page, close } = await open(pathToFileURL(join(dir.path, 'acme.html')).href, {
      viewport: { width: 1_280, height: 720 },
      colorScheme: 'light',
    })
    await page.locator('#access').evaluate((heading) => heading.scrollIntoView())
    expectPicture('audit/docs/images/report.png', await page.screenshot())
    await close()
  })
})

/** Writes a picture for a page of the docs if that is asked for; expects that it has the size of the one there. */
function expectPicture(path: string, made: Buffer): void {
  const file = new URL(`../../packages/${path}`, import.meta.url)
  if (process.env.EAAS_TEST_PICTURES === 'write') writeFileSync(file, made)
  expect(sizeOf(readFileSync(file))).toEqual(sizeOf(made))
}

/** Does what a shop does in three months, so that the pages have something to show. `goTo` sets how long ago that is. */
async function live(service: Service, owner: Caller, goTo: (ago: number) => void): Promise<void> {
  goTo(98 * DAY_MS)
  const callers = new Map<string, { caller: Caller; address: string }>()
  const programs: [name: string, address: string, options: object][] = [
    ['web server', '10.0.4.17', { permissions: ['wrap', 'unwrap', 'audit:on_behalf_of'] }],
    ['import', '10.0.4.30', { permissions: ['wrap'] }],
    ['nightly report', '10.0.9.2', { permissions: ['unwrap'], budgets: { unwrap: { per_day: 2 } } }],
  ]
  for (const [name, address, options] of programs) {
    const { body } = await owner.call('POST', '/v1/api-keys', { name, ...options })
    callers.set(name, { caller: service.caller(body.secret), address })
  }

  const ids = new Map<string, string>()
  const change = async (key: string, method: 'POST' | 'PATCH' | 'DELETE', path: string, body?: object) => {
    const isNew = path === 'create'
    const answer = await owner.call(
      method,
      isNew ? '/v1/keys' : `/v1/keys/${ids.get(key)}${path}`,
      isNew ? { name: key } : body,
    )
    expect(answer.status, `${key} ${path}`).toBeLessThan(300)
    if (isNew) ids.set(key, answer.body.id)
  }
  const use = async (by: string, call: string, key: string, body: object, user?: string) => {
    const { caller, address } = callers.get(by) ?? { caller: owner, address: '' }
    const headers = { 'x-forwarded-for': address, ...(user ? { 'eaas-on-behalf-of': user } : {}) }
    return (await caller.call('POST', `/v1/keys/${ids.get(key)}/${call}`, body, headers)).body
  }
  const dek = Buffer.alloc(32, 7).toString('base64')
  const wrapped = new Map<string, { wrapped_key: string; purpose: string; context: object }>()
  const wrap = async (by: string, key: string, model: string, row: string, user?: string) => {
    const stated = { purpose: 'data', context: { model, row } }
    const { wrapped_key } = await use(by, 'wrap', key, { dek, ...stated }, user)
    wrapped.set(model + row, { wrapped_key, ...stated })
  }
  const unwrap = (by: string, key: string, of: string, user?: string) =>
    use(by, 'unwrap', key, wrapped.get(of) ?? {}, user)
  const past: [minutesAgo: number, work: () => Promise<unknown>][] = [
    [97 * DAY, () => change('customers/contact', 'POST', 'create')],
    [97 * DAY, () => change('customers/notes', 'POST', 'create')],
    [97 * DAY, () => wrap('web server', 'customers/contact', 'customers', '1042', 'ada')],
    [90 * DAY, () => change('campaigns/spring', 'POST', 'create')],
    [61 * DAY, () => change('orders/addresses', 'POST', 'create')],
    [40 * DAY, () => change('customers/contact', 'POST', '/rotate')],
    [40 * DAY, () => change('customers/contact', 'PATCH', '/rotation', { interval_days: 90 })],
    [33 * DAY, () => change('staff/payroll', 'POST', 'create')],
    [26 * DAY, () => change('support/tickets', 'POST', 'create')],
    [26 * DAY, () => change('support/tickets', 'PATCH', '/rotation', { interval_days: 30 })],
    [8 * DAY, () => change('staff/payroll', 'DELETE', '')],
    [5 * DAY, () => change('campaigns/spring', 'DELETE', '')],
    [2 * DAY, () => change('campaigns/spring', 'POST', '/destroy', { confirm: 'campaigns/spring' })],
    [425, () => wrap('import', 'orders/addresses', 'orders', '5841')],
    [425, () => wrap('import', 'orders/addresses', 'orders', '5842')],
    [190, () => wrap('web server', 'customers/contact', 'customers', '1042', 'ada')],
    [188, () => wrap('web server', 'customers/notes', 'notes', '1042', 'ada')],
    [131, () => wrap('web server', 'support/tickets', 'tickets', '310', 'grace')],
    [75, () => unwrap('nightly report', 'orders/addresses', 'orders5841')],
    [75, () => unwrap('nightly report', 'orders/addresses', 'orders5842')],
    [74, () => unwrap('nightly report', 'customers/contact', 'customers1042')],
    [41, () => use('web server', 'index-secret', 'customers/contact', { name: 'customers' }, 'emmy')],
    [41, () => unwrap('web server', 'customers/contact', 'customers1042', 'emmy')],
    [26, () => unwrap('web server', 'support/tickets', 'tickets310', 'grace')],
    [9, () => unwrap('web server', 'orders/addresses', 'orders5841', 'ada')],
    [3, () => unwrap('web server', 'customers/notes', 'notes1042', 'grace')],
  ]
  // On one day one of them opens far more than on the others.
  for (let day = 60; day > 0; day -= 1) {
    const isWeekend = day % 7 < 2
    for (let at = 0; at < (day === 18 ? 16 : isWeekend ? 0 : 1 + (day % 4)); at += 1) {
      const user = day === 18 || at % 2 === 0 ? 'ada' : 'grace'
      const open = () => unwrap('web server', 'customers/contact', 'customers1042', user)
      past.push([day * DAY - 25 * at, open])
    }
  }
  for (const [minutesAgo, work] of past.toSorted(([a], [b]) => b - a)) {
    goTo(minutesAgo * MINUTE_MS)
    await work()
  }
  goTo(0)
}

/** Width and height of a PNG: its first chunk begins with them. */
function sizeOf(png: Buffer): [number, number] {
  return [png.readUInt32BE(16), png.readUInt32BE(20)]
}
