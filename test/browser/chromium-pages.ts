// Pages in Chromium for the tests: opened, watched, measured.
import { EventEmitter, once } from 'node:events'
import { fileURLToPath } from 'node:url'
import {
  type Browser,
  type BrowserContextOptions,
  chromium,
  type Page,
  type Request,
  type Route,
} from 'playwright-core'
import { afterAll, beforeAll, describe } from 'vitest'
import { findOrInstallChromium } from '../support/platforms/browsers.js'

const LAUNCHER = fileURLToPath(new URL('without-address-bar.sh', import.meta.url))
const LAUNCH_TIMEOUT_MS = 120_000
const TIMEOUT_MS = 60_000
const DRAWN_MS = 300

/** What `stored` finds where a page left nothing. */
export const NOTHING_STORED = { local: {}, session: {}, databases: [], caches: [], cookie: '' }

export interface Chromium {
  open(url: string, options?: BrowserContextOptions): Promise<OpenedPage>
  longestShare(page: Page, work: () => Promise<void>): Promise<number>
  marksByTask(page: Page, mark: string, work: () => Promise<void>): Promise<Marks>
  taskTimes(page: Page, work: () => Promise<void>): Promise<number[]>
}

/** The marks of one name (`performance.mark`) that a page has set. */
export interface Marks {
  all: number
  /** The most that were set in one task. */
  most: number
}

/** Runs tests with a Chromium of their own, which ends after them. Where there is none they are skipped, and their title says so. */
export function inChromium(name: string, tests: (chromium: Chromium) => void): void {
  const path = findOrInstallChromium()
  const isMissing = path === undefined
  const title = isMissing ? `${name} (skipped: there is no Chromium)` : name
  describe.skipIf(isMissing)(title, { timeout: TIMEOUT_MS }, () => {
    let browser: Browser
    beforeAll(async () => {
      // As root, which containers are, Chromium has no sandbox; it only sees our own pages.
      const args = ['--no-sandbox', '--disable-dev-shm-usage']
      const env = { ...process.env, EAAS_TEST_CHROMIUM: path }
      browser = await chromium.launch({ executablePath: LAUNCHER, env, args, chromiumSandbox: false })
    }, LAUNCH_TIMEOUT_MS)
    afterAll(() => browser?.close())
    tests({
      open: (url, options) => openPage(browser, url, options),
      longestShare: (page, work) => longestShare(browser, page, work),
      marksByTask: (page, mark, work) => marksByTask(browser, page, { mark, work }),
      taskTimes: (page, work) => taskTimes(browser, page, work),
    })
  })
}

export type OpenedPage = Awaited<ReturnType<typeof openPage>>

/** Opens a page in a context of its own, and notes whatever it complains of. */
async function openPage(browser: Browser, url: string, options?: BrowserContextOptions) {
  const context = await browser.newContext(options)
  const page = await context.newPage()
  const requests: Request[] = []
  const complaints: string[] = []
  page.on('request', (request) => requests.push(request))
  page.on('pageerror', ({ message }) => complaints.push(message))
  page.on('console', (message) => {
    if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text())
  })
  await page.addInitScript(() => {
    const seen: string[] = []
    Object.assign(globalThis, { seen })
    globalThis.addEventListener('securitypolicyviolation', (event) => {
      seen.push((event as SecurityPolicyViolationEvent).effectiveDirective)
    })
  })
  await page.goto(url)
  const violations = () => page.evaluate(() => (globalThis as unknown as { seen: string[] }).seen)
  return { page, requests, complaints, violations, close: () => context.close() }
}

/** Signs in to the console with the secret of an API key. */
export async function signIn({ page }: Pick<OpenedPage, 'page'>, secret: string): Promise<void> {
  await page.getByLabel('API key').fill(secret)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('button', { name: 'Sign out' }).waitFor()
}

/** Has the page's next request of this URL wait for its answer: the one of when it was `asked`, until `answer` is called. */
export async function delayAnswer(page: Page, url: string | RegExp) {
  const steps = new EventEmitter()
  const [asked, released, answered] = ['asked', 'released', 'answered'].map((step) => once(steps, step))
  const hold = async (route: Route) => {
    const response = await route.fetch()
    steps.emit('asked')
    await released
    await route.fulfill({ response })
    steps.emit('answered')
  }
  await page.route(url, hold, { times: 1 })
  const answer = async () => {
    steps.emit('released')
    await answered
    // The page reads the answer and draws in tasks of its own.
    await page.evaluate((ms) => new Promise((resolve) => setTimeout(resolve, ms)), DRAWN_MS)
  }
  return { asked, answer }
}

/** What the page has put where it would outlive it. */
export function stored(page: Page) {
  return page.evaluate(async () => {
    // By number: an item named `key` or `length` is no member of the object.
    const itemsOf = (storage: Storage) =>
      Object.fromEntries(
        Array.from({ length: storage.length }, (_, at) => [storage.key(at), storage.getItem(storage.key(at) ?? '')]),
      )
    return {
      local: itemsOf(localStorage),
      session: itemsOf(sessionStorage),
      databases: await indexedDB.databases(),
      caches: await caches.keys(),
      cookie: document.cookie,
    }
  })
}

/** The share of the longest task in the CPU time of all tasks of a page meanwhile, from 0 to 1: near 1 where the page is held up. */
async function longestShare(browser: Browser, page: Page, work: () => Promise<void>): Promise<number> {
  const durations = tasksOf(await trace(browser, page, work)).map(({ tdur = 0 }) => tdur)
  return Math.max(...durations) / durations.reduce((sum, duration) => sum + duration, 0)
}

/** Counts marks by the tasks of a page in which they are set. It depends neither on the machine's speed nor on what else that does. */
async function marksByTask(
  browser: Browser,
  page: Page,
  { mark, work }: { mark: string; work: () => Promise<void> },
): Promise<Marks> {
  const events = await trace(browser, page, work)
  const marks = events.filter(({ name, cat }) => name === mark && cat === 'blink.user_timing')
  const tasks = tasksOf(events).filter(({ pid, tid }) => marks[0]?.pid === pid && marks[0].tid === tid)
  const counts = tasks.map(({ ts, dur = 0 }) => marks.filter((one) => one.ts >= ts && one.ts <= ts + dur).length)
  return { all: marks.length, most: Math.max(...counts) }
}

/** The CPU time of each task of a page meanwhile, in milliseconds: what else the machine does is not in it. */
async function taskTimes(browser: Browser, page: Page, work: () => Promise<void>): Promise<number[]> {
  const events = await trace(browser, page, async () => {
    await page.evaluate(() => performance.mark('begun'))
    await work()
  })
  const begun = events.find(({ name, cat }) => name === 'begun' && cat === 'blink.user_timing')
  const tasks = tasksOf(events).filter(({ pid, tid }) => pid === begun?.pid && tid === begun.tid)
  return tasks.map(({ tdur = 0 }) => tdur / 1_000)
}

interface TraceEvent {
  name: string
  cat: string
  pid: number
  tid: number
  ts: number
  /** wall clock */
  dur?: number
  /** CPU time of the thread */
  tdur?: number
}

async function trace(browser: Browser, page: Page, work: () => Promise<void>): Promise<TraceEvent[]> {
  const categories = ['devtools.timeline', 'disabled-by-default-devtools.timeline', 'blink.user_timing']
  await browser.startTracing(page, { categories })
  await work()
  // A task that has not ended when the trace does has no duration there, and the page may answer in the middle of one.
  await page.evaluate(() => new Promise((resolve) => setTimeout(resolve)))
  return (JSON.parse((await browser.stopTracing()).toString()) as { traceEvents: TraceEvent[] }).traceEvents
}

function tasksOf(events: readonly TraceEvent[]): TraceEvent[] {
  return events.filter(({ name }) => name === 'RunTask')
}

/** Texts whose contrast is below WCAG's 4.5 : 1, with their colours. */
export function weakContrasts(page: Page, selector = 'body *'): Promise<string[]> {
  return page.evaluate((selector) => {
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true })
    const rgb = (color: string) => {
      if (!canvas) throw new Error('no canvas')
      canvas.clearRect(0, 0, 1, 1)
      canvas.fillStyle = color
      canvas.fillRect(0, 0, 1, 1)
      return [...canvas.getImageData(0, 0, 1, 1).data]
    }
    const luminance = (color: number[]) => {
      const [r = 0, g = 0, b = 0] = color.map((value) => {
        const part = value / 255
        return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4
      })
      return 0.2126 * r + 0.7152 * g + 0.0722 * b
    }
    const backgroundOf = (element: Element | null): number[] => {
      const color = element ? rgb(getComputedStyle(element).backgroundColor) : [255, 255, 255, 255]
      return color[3] === 255 ? color : backgroundOf(element?.parentElement ?? null)
    }
    const weak = new Set<string>()
    for (const element of document.querySelectorAll(selector)) {
      const hasText = [...element.childNodes].some((node) => node.nodeType === 3 && node.textContent?.trim())
      if (!hasText || element.matches('noscript, option')) continue
      const style = getComputedStyle(element)
      const [a, b] = [luminance(rgb(style.color)), luminance(backgroundOf(element))]
      const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05)
      if (ratio < 4.5) weak.add(`${element.tagName} ${element.className} ${style.color} ${ratio.toFixed(2)}`)
    }
    return [...weak]
  }, selector)
}
