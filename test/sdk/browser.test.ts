// The SDK where it must not be trusted to be Node: pages and workers in Chromium, before a broker or with short-lived keys.
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Browser, type BrowserContextOptions, chromium, type Page, type Request } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import vectors from '../../packages/protocol/src/envelope.vectors.json' with { type: 'json' }
import { createClient } from '../../packages/sdk/src/index.js'
import { findOrInstallChromium } from '../support/chromium.js'
import { createTenantByCli, type EaasProcess, startEaas } from '../support/eaas-process.js'
import { FAST_WASM_BELOW } from '../support/fast-wasm.js'
import { type GuardedDir, guardedDir } from '../support/guarded-dir.js'
import type { SuiteOutcome } from '../support/packed-sdk.js'
import { RUNTIMES, rowOf } from '../support/runtime-table.js'
import { type PageServer, startPageServer } from './page-server.js'
import { type RecordedRequest, startRecordingProxy } from './recording-proxy.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
const START_TIMEOUT_MS = 120_000
const TIMEOUT_MS = 60_000
const executablePath = findOrInstallChromium()

type RunSuite = (vectors: unknown, redirecting: string, without: readonly string[]) => Promise<SuiteOutcome>

let browser: Browser
let dir: GuardedDir
let temporary: string
let example: ReturnType<typeof startExample>
let pages: PageServer
let eaas: EaasProcess
let tenantKey: string

beforeAll(async () => {
  if (executablePath === undefined) return
  dir = guardedDir('eaas-test-browser')
  temporary = join(dir.path, 'example')
  mkdirSync(temporary)
  example = startExample(temporary) // takes a while, and others need not wait for it
  // As root, which containers are, Chromium has no sandbox; it only sees our own pages.
  const args = ['--no-sandbox', '--disable-dev-shm-usage']
  browser = await chromium.launch({ executablePath, args, chromiumSandbox: false })
  pages = await startPageServer()
  const database = { backend: 'embedded' as const, dataDir: join(dir.path, 'eaas'), drop: async () => undefined }
  const options = { database, environment: { EAAS_CORS_ORIGINS: pages.url } }
  eaas = await startEaas(options)
  tenantKey = (await createTenantByCli(options, 'pages')).api_key.secret
}, START_TIMEOUT_MS)
afterAll(async () => {
  await browser?.close()
  await pages?.close()
  await eaas?.stop()
  await example?.stop()
  await dir?.remove()
})

function inChromium(name: string, tests: () => void): void {
  const isMissing = executablePath === undefined
  const title = isMissing ? `${name} (skipped: there is no Chromium)` : name
  describe.skipIf(isMissing)(title, { timeout: TIMEOUT_MS }, tests)
}

/** Opens a page, and notes whatever it complains of. */
async function open(url: string, options: BrowserContextOptions = {}) {
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

/** What the page has put where it would outlive it. */
function stored(page: Page) {
  return page.evaluate(async () => ({
    local: { ...localStorage },
    session: { ...sessionStorage },
    databases: await indexedDB.databases(),
    caches: await caches.keys(),
    cookie: document.cookie,
  }))
}
const NOTHING_STORED = { local: {}, session: {}, databases: [], caches: [], cookie: '' }

inChromium('the SDK in a page', () => {
  let keyId: string
  let minted: string[]
  let lifeMs: number
  let opened: Awaited<ReturnType<typeof open>>

  beforeAll(async () => {
    const owner = createClient({ baseUrl: eaas.url, apiKey: tenantKey })
    keyId = (await owner.keys.create({ name: 'pages' })).id
    const permissions = ['encrypt', 'decrypt', 'audit:on_behalf_of'] as const
    const { secret } = await owner.apiKeys.create({ name: 'broker', permissions })
    const mint = async () => {
      const expires_at = new Date(Date.now() + lifeMs)
      const key = await owner.apiKeys.create({ name: 'page', permissions: ['encrypt'], expires_at })
      minted.push(key.secret)
      return { secret: key.secret, expires_at: key.expires_at, created_at: key.created_at }
    }
    pages.service = { url: eaas.url, brokerKey: secret, keyId, mint }
    minted = []
    lifeMs = 300_000
    opened = await open(pages.url)
    await opened.page.waitForFunction(() => globalThis.harness !== undefined)
  }, START_TIMEOUT_MS)
  afterAll(() => opened?.close())

  const sealed = ['web', 'noble', 'auto'].flatMap((name) =>
    vectors.seal.map(({ ciphertext = '', ciphertext_sha256 }) => ({
      name,
      sealed: ciphertext_sha256 ?? createHash('sha256').update(Buffer.from(ciphertext, 'base64')).digest('hex'),
      isSame: true,
    })),
  )

  it('seals and opens the published vectors with every engine that it has, WebCrypto by default', async () => {
    const outcome = await opened.page.evaluate((vectors) => globalThis.harness.runVectors(vectors), vectors.seal)
    expect(outcome).toEqual({ outcomes: sealed, isWeb: true })
  })

  it('passes the suite of all runtimes', async () => {
    const other = await open(`${pages.url}/suite`)
    await other.page.waitForFunction(() => 'runSuite' in globalThis)
    pages.answered.length = 0
    // A page cannot set `sec-fetch-site`: what the check sends as a browser would is refused, as it should be.
    const without = ['a broker stands between a page and the service']
    const { passed, ...outcome } = await other.page.evaluate(
      ({ vectors, without }) => {
        const { runSuite } = globalThis as unknown as { runSuite: RunSuite }
        return runSuite(vectors, `${location.origin}/redirecting`, without)
      },
      { vectors, without },
    )
    expect(outcome).toEqual({ engines: RUNTIMES.chromium.engines, failed: [] })
    console.info(rowOf(RUNTIMES.chromium))
    expect(passed).toBeGreaterThan(200)
    const asked = pages.answered.map(({ path }) => path)
    expect(asked.filter((path) => !path.endsWith('.js'))).toEqual(['/redirecting/v1/keys', '/redirecting/v1/hash'])
    expect(await other.violations()).toEqual([])
    await other.close()
  })

  it.each(vectors.refuse)('refuses: $name', async ({ error, envelope }) => {
    // The SDK also reads JSON as text: the format, whose vector is JSON, knows objects only.
    const given = typeof envelope === 'string' ? envelope.slice(0, -1) : envelope
    const code = await opened.page.evaluate(({ envelope, key }) => globalThis.harness.openRefused(envelope, key), {
      envelope: given,
      key: vectors.key,
    })
    // Whether it is our envelope at all is decided by the key's id, which these vectors may lack.
    const isForKey = (envelope as { key_id?: unknown } | null)?.key_id === vectors.valid.key_id
    expect(code).toBe(error === 'format' || !isForKey ? 'E_INVALID_INPUT' : 'E_DECRYPTION')
  })

  it('works under default-src self, in the page and in a worker, and breaks no rule of it', async () => {
    const { page } = opened
    expect(await page.evaluate((keyId) => globalThis.harness.roundTrip(keyId), keyId)).toBe('called twice')
    const inWorker = await page.evaluate(({ keyId, vectors }) => globalThis.harness.startWorker(keyId, vectors), {
      keyId,
      vectors: vectors.seal,
    })
    expect(inWorker).toEqual({ note: 'called twice', vectors: { outcomes: sealed, isWeb: true }, violations: [] })
    expect(await opened.violations()).toEqual([])
    expect(opened.complaints.filter((complaint) => /content security|eval/i.test(complaint))).toEqual([])
  })

  it('would be caught if it evaluated text', async () => {
    const other = await open(pages.url)
    await other.page.waitForFunction(() => globalThis.harness !== undefined)
    await other.page.evaluate(() => {
      const script = document.createElement('script')
      script.textContent = 'globalThis.evaluated = true'
      document.body.append(script)
    })
    await expect.poll(other.violations).toEqual(['script-src-elem'])
    await other.close()
  })

  it('holds DEKs as keys that cannot be exported, and wipes their bytes at once', async () => {
    const imports = await opened.page.evaluate(async (keyId) => {
      const { watchImports, roundTrip } = globalThis.harness
      const watched = watchImports()
      await roundTrip(keyId)
      return watched.imports
    }, keyId)
    expect(imports.length).toBeGreaterThanOrEqual(2) // the writer's and the reader's
    for (const one of imports) expect(one).toEqual({ isExtractable: false, isWiped: true })
  })

  it('sends the broker its session, and no API key', async () => {
    const toBroker = opened.requests.filter((request) => request.url().includes('/api/eaas/'))
    expect(toBroker.length).toBeGreaterThan(0)
    for (const request of toBroker) {
      const headers = await request.allHeaders()
      expect(headers).not.toHaveProperty('authorization')
      expect(headers.cookie).toBe('sid=ada')
    }
  })

  it('renews a short-lived API key that has expired, and its user sees nothing of it', async () => {
    lifeMs = 1_500
    minted.length = 0
    const read = await opened.page.evaluate(
      async ({ baseUrl, keyId }) => {
        const { sdk } = globalThis.harness
        const apiKey = sdk.expiringApiKey(async () => (await fetch('/api/key', { method: 'POST' })).json())
        const eaas = sdk.createClient({ baseUrl, apiKey })
        const first = await eaas.encrypt('before', { keyId, dek: 'call' })
        await new Promise((resolve) => setTimeout(resolve, 2_000))
        const [second, third] = await Promise.all([
          eaas.encrypt('after', { keyId, dek: 'call' }),
          eaas.hash('after', { keyId }),
        ])
        return [first.key_id, second.key_id, third.length]
      },
      { baseUrl: eaas.url, keyId },
    )
    expect(read).toEqual([keyId, keyId, 64])
    expect(minted).toHaveLength(2)
  })

  it('cannot read with a key that was minted to write', async () => {
    lifeMs = 300_000
    const status = await opened.page.evaluate(
      async ({ baseUrl, keyId }) => {
        const { sdk } = globalThis.harness
        const apiKey = sdk.expiringApiKey(async () => (await fetch('/api/key', { method: 'POST' })).json())
        const envelope = await sdk.createClient({ baseUrl, apiKey }).encrypt('x', { keyId })
        const reading = sdk.createClient({ baseUrl, apiKey }).decrypt(envelope)
        return reading.catch((error: { problem: string }) => error.problem)
      },
      { baseUrl: eaas.url, keyId },
    )
    expect(status).toBe('E_MISSING_PERMISSION')
  })

  it.each([
    ['another site', 'localhost'],
    ['another port of the same site', '127.0.0.1'],
  ])('is refused from %s, by the broker and by CORS', async (_, host) => {
    const foreign = await startPageServer()
    // Its own policy out of the way: an attacker's page would have none.
    const other = await open(`http://${host}:${foreign.port}`, { bypassCSP: true })
    await other.page.waitForFunction(() => globalThis.harness !== undefined)
    pages.answered.length = 0
    const outcome = await other.page.evaluate(
      async ({ broker, keyId, service, secret }) => {
        const { sdk } = globalThis.harness
        const codeOf = (call: Promise<unknown>) =>
          call.then(String, (error: { code?: string; name: string }) => error.code ?? error.name)
        const sneak = (type: string) =>
          codeOf(
            fetch(`${broker}/v1/hash`, {
              method: 'POST',
              credentials: 'include',
              headers: { 'content-type': type },
              body: '{}',
            }),
          )
        return [
          await sneak('text/plain'),
          await sneak('application/json'),
          await codeOf(sdk.createClient({ baseUrl: broker, retries: 0 }).hash('v', { keyId })),
          await codeOf(sdk.createClient({ baseUrl: service, apiKey: secret, retries: 0 }).hash('v', { keyId })),
        ]
      },
      { broker: `${pages.url}/api/eaas`, keyId, service: eaas.url, secret: minted.at(-1) ?? '' },
    )
    expect(outcome).toEqual(['TypeError', 'TypeError', 'E_NETWORK', 'E_NETWORK'])
    const statuses = pages.answered.filter(({ path }) => path.startsWith('/api/')).map(({ status }) => status)
    expect(statuses[0]).toBe(403) // what was sent without asking
    expect(new Set(statuses.slice(1))).toEqual(new Set([405])) // what was asked for
    await other.close()
    await foreign.close()
  })

  it.each(['auto', 'noble'] as const)('decrypts 1,000 rows without a task of 50 ms, %s', async (engine) => {
    const { page } = opened
    // Held up for 1.5 s, so that even a machine with much other work gives it more than 50 ms.
    expect(await longestTask(page, () => page.evaluate(() => globalThis.harness.holdUp(1_500)))).toBeGreaterThan(50)
    await page.evaluate(({ keyId, engine }) => globalThis.harness.sealRows(keyId, 1_000, engine), { keyId, engine })
    const longest = await longestTask(page, async () =>
      expect(await page.evaluate(() => globalThis.harness.openRows())).toBe(1_000),
    )
    expect(longest).toBeLessThan(50)
  })

  it('leaves nothing in the browser', async () => {
    expect(await stored(opened.page)).toEqual(NOTHING_STORED)
  })
})

/** The longest task of a page meanwhile, in milliseconds of CPU time: waiting for a machine with other work does not count. */
async function longestTask(page: Page, work: () => Promise<void>): Promise<number> {
  await browser.startTracing(page, { categories: ['devtools.timeline', 'disabled-by-default-devtools.timeline'] })
  await work()
  const { traceEvents } = JSON.parse((await browser.stopTracing()).toString()) as {
    traceEvents: { name: string; tdur?: number }[]
  }
  const tasks = traceEvents.filter(({ name }) => name === 'RunTask')
  return Math.max(...tasks.map(({ tdur = 0 }) => tdur)) / 1_000
}

inChromium('the page of the API', () => {
  it('works offline, in the dark and on a phone, with real examples and calls that can be tried', async () => {
    const options = { colorScheme: 'dark' as const, viewport: { width: 375, height: 800 } }
    const { page, requests, complaints, violations, close } = await open(`${eaas.url}/docs`, options)
    const call = async (path: string) => {
      const block = page.locator('.opblock', { has: page.locator(`[data-path="${path}"]`) }).first()
      await block.locator('.opblock-summary-control').click()
      await block.locator('.responses-table').waitFor()
      return block
    }
    const wrap = await call('/v1/keys/{id}/wrap')
    const examples = (await wrap.locator('.highlight-code').allInnerTexts()).map((text) => JSON.parse(text))
    expect(Buffer.from(examples[0].dek, 'base64')).toHaveLength(32)
    expect(Buffer.from(examples[1].wrapped_key, 'base64')).toHaveLength(65)
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(options.viewport.width)
    expect(await weakContrasts(page, '.opblock.is-open .headers *')).toEqual([])

    await page.getByRole('button', { name: 'Authorize' }).click()
    await page.locator('.auth-container input').fill(tenantKey)
    await page.locator('.auth-container').getByRole('button', { name: 'Apply credentials' }).click()
    await page.locator('.auth-container').getByRole('button', { name: 'Close' }).click()
    const tenant = await call('/v1/tenant')
    await tenant.getByRole('button', { name: 'Try it out' }).click()
    await tenant.getByRole('button', { name: 'Execute' }).click()
    await tenant.locator('.live-responses-table').getByText('"tenant_id"').waitFor()

    expect(requests.filter((request) => !/^data:/.test(request.url()) && !request.url().startsWith(eaas.url))).toEqual(
      [],
    )
    expect(await violations()).toEqual([])
    expect(complaints).toEqual([])
    expect(await stored(page)).toEqual(NOTHING_STORED)
    await close()
  })
})

inChromium('npm run example:browser', () => {
  const customer = {
    name: 'Zuzana Nováková-Quill',
    email: 'Zuzana.Quill@Example.org',
    phone: '+420 555 019 283',
    note: 'The spare key is under the blue flowerpot & "that’s it".',
  }
  let url: string

  beforeAll(async () => {
    url = await example.listening
  }, START_TIMEOUT_MS)

  it('encrypts what is typed, shows it to who may read, finds it, and tells no server', async () => {
    const proxy = await startRecordingProxy(url)
    const { page, requests, complaints, violations, close } = await open(proxy.url)
    await page.waitForSelector('tr[data-state=open]')

    await page.getByLabel('Name').fill(customer.name)
    await page.locator('#customer [name=email]').fill(customer.email)
    await page.getByLabel('Phone').fill(customer.phone)
    await page.getByLabel('Note').fill(customer.note)
    await page.getByRole('button', { name: 'Encrypt and save' }).click()
    const newest = page.locator('#rows tr').first()
    for (const value of Object.values(customer)) await newest.getByText(value, { exact: true }).waitFor()

    const entry = page.locator('#entries li', { hasText: 'key.wrap' }).filter({ hasText: 'for ada' })
    await entry.first().waitFor()
    await page.getByText(/^chain whole/).waitFor()
    await page.locator('#requests summary', { hasText: 'new customer' }).click()
    expect(await page.locator('#requests pre').first().textContent()).toContain('"ciphertext"')

    await page.getByLabel('Ben').check()
    await page.waitForSelector('tr[data-state=sealed]')
    const bodyText = await page.locator('main').innerText()
    for (const value of Object.values(customer)) expect(bodyText).not.toContain(value)
    expect(await page.locator('#rows tr').count()).toBe(4)

    await page.getByLabel('Find by e-mail').fill(` ${customer.email.toUpperCase()} `)
    await page.getByRole('button', { name: 'Find' }).click()
    await page.getByRole('button', { name: 'Show all' }).waitFor()
    expect(await page.locator('#rows tr[data-state=sealed]').count()).toBe(1)
    await page.getByLabel('Ada').check()
    await newest.getByText(customer.note).waitFor()
    await page.getByRole('button', { name: 'Show all' }).click()
    await page.waitForFunction(() => document.querySelectorAll('#rows tr').length === 4)

    expectNoPlaintext(proxy.requests, customer)
    expect(requests.filter((request) => !request.url().startsWith(`${proxy.url}/`))).toEqual([]) // none went elsewhere
    expect(await violations()).toEqual([])
    // The browser itself tells of a refused request.
    expect(complaints.filter((complaint) => !complaint.includes('403 (Forbidden)'))).toEqual([])
    expect(await stored(page)).toEqual(NOTHING_STORED)
    await close()
    await proxy.close()
  })

  it('works by keyboard alone, with the focus visible', async () => {
    const { page, close } = await open(url)
    await page.waitForSelector('tr[data-state=open]')
    const focused: string[] = []
    const next = async () => {
      await page.keyboard.press('Tab')
      const { name, width } = await page.evaluate(() => {
        const active = document.activeElement as HTMLInputElement
        const ring = active.type === 'radio' ? active.nextElementSibling : active
        return { name: active.name || active.textContent, width: ring ? getComputedStyle(ring).outlineWidth : '' }
      })
      expect([name, width]).toEqual([name, '3px'])
      focused.push(name.trim())
    }
    await next()
    for (const text of ['Keyboard Only', 'keys@example.org', '1', 'typed']) {
      await next()
      await page.keyboard.type(text)
    }
    await next()
    await page.keyboard.press('Enter')
    await page.locator('#rows tr', { hasText: 'Keyboard Only' }).waitFor()
    expect(focused).toEqual(['user', 'name', 'email', 'phone', 'note', 'Encrypt and save'])
    expect(await page.evaluate(() => document.activeElement?.getAttribute('name'))).toBe('name')
    await close()
  })

  it.each(['light', 'dark'] as const)('fits on 375 px and can be read, %s', async (colorScheme) => {
    const { page, close } = await open(url, { colorScheme, viewport: { width: 375, height: 800 } })
    await page.waitForSelector('tr[data-state=open]')
    await page.locator('#entries li').first().waitFor()
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(375)
    expect(await weakContrasts(page)).toEqual([])
    const unlabelled = await page.evaluate(
      () =>
        [...document.querySelectorAll<HTMLInputElement>('input, textarea')].filter(({ labels }) => !labels?.length)
          .length,
    )
    expect(unlabelled).toBe(0)
    await close()
  })

  it.each([
    ['without a session', {}, 401],
    ['as a page of another site', { 'sec-fetch-site': 'cross-site' }, 403],
  ])('its broker refuses calls %s', async (_, headers, status) => {
    const response = await fetch(`${url}/api/eaas/v1/hash`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', origin: url, ...headers },
      body: '{}',
    })
    expect(response.status).toBe(status)
  })

  it('stores no plaintext, whatever a page sends', async () => {
    const session = await fetch(`${url}/api/session`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"user":"ada"}',
    })
    const cookie = session.headers.get('set-cookie')?.split(';')[0] ?? ''
    const headers = { 'content-type': 'application/json', cookie }
    const response = await fetch(`${url}/api/customers`, { method: 'POST', headers, body: JSON.stringify(customer) })
    expect(response.status).toBe(400)
  })

  it('leaves nothing behind after Ctrl-C', async () => {
    expect(await example.stop()).toBe(130)
    expect(readdirSync(temporary)).toEqual([])
    await expect(fetch(url)).rejects.toThrow()
  })
})

/** Starts the example as npm does, with a temporary folder of its own. */
function startExample(temporary: string) {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('EAAS_') && name !== 'NODE_ENV')
  const child = spawn(process.execPath, [join(root, 'examples/browser/main.mjs')], {
    env: { ...Object.fromEntries(inherited), NODE_OPTIONS: FAST_WASM_BELOW, TMPDIR: temporary, EXAMPLE_PORT: '0' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  if (child.pid !== undefined) dir.watch([child.pid])
  const ended = once(child, 'close') as Promise<[number | null]>
  let out = ''
  const listening = new Promise<string>((resolve, reject) => {
    const read = (text: string) => {
      out += text
      const found = /^Open (\S+)$/m.exec(out)?.[1]
      if (found !== undefined) resolve(found)
    }
    child.stdout.setEncoding('utf8').on('data', read)
    child.stderr.setEncoding('utf8').on('data', read)
    ended.then(() => reject(new Error(`the example ended: ${out}`)), reject)
  })
  listening.catch(() => undefined) // whoever waits for it is told
  const stop = async () => {
    child.kill('SIGINT')
    return (await ended)[0]
  }
  return { listening, stop }
}

/** Looks at all that left the page: an e-mail in what EaaS is to hash, and nothing else that was typed. */
function expectNoPlaintext(requests: readonly RecordedRequest[], customer: Record<string, string>): void {
  expect(requests.length).toBeGreaterThan(10)
  const hashed: string[] = []
  for (const { method, target, headers, ...request } of requests) {
    let { body } = request
    if (/\/api\/eaas\/v1\/(?:hash|batch)$/.test(target)) {
      const sent = JSON.parse(body) as { value?: string; operations?: { op: string; value?: string }[] }
      const operations = sent.operations ?? [{ op: 'hash', ...sent }]
      hashed.push(...operations.flatMap(({ op, value }) => (op === 'hash' && value !== undefined ? [value] : [])))
      body = JSON.stringify(operations.map(({ value: _, ...rest }) => rest))
    }
    const left = `${target}\n${headers}\n${body}`.toLowerCase()
    for (const form of Object.values(customer).flatMap(formsOf)) {
      expect(left.includes(form.toLowerCase()), `${method} ${target}`).toBe(false)
    }
  }
  expect(requests.some(({ body }) => body.includes('"ciphertext"'))).toBe(true) // bodies were looked at
  expect(new Set(hashed)).toEqual(new Set([customer.email?.toLowerCase()]))
}

/** A text as it might be found: as it is, in JSON, in a URL, in base64 at any place, in hexadecimal. */
function formsOf(text: string): string[] {
  const bytes = Buffer.from(text)
  const shifted = [0, 1, 2].map((by) =>
    Buffer.concat([Buffer.alloc(by), bytes])
      .toString('base64')
      .slice(4, -4)
      .replaceAll('=', ''),
  )
  const lower = text.toLowerCase()
  return [text, lower, JSON.stringify(text).slice(1, -1), encodeURIComponent(text), bytes.toString('hex'), ...shifted]
}

/** Texts whose contrast is below WCAG's 4.5 : 1, with their colours. */
function weakContrasts(page: Page, selector = 'body *'): Promise<string[]> {
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
