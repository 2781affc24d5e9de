// `npm run example:browser` as its users see it, in Chromium: what it shows, what leaves the page, by keyboard and on a phone.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { fromText, toText } from '@eaas/sdk'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type GuardedDir, guardedDir } from '../support/run/guarded-dir.js'
import { inChromium, NOTHING_STORED, stored, weakContrasts } from './chromium-pages.js'
import { type RecordedRequest, startRecordingProxy } from './recording-proxy.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
const START_TIMEOUT_MS = 120_000

inChromium('npm run example:browser', ({ open }) => {
  const customer = {
    name: 'Zuzana Nováková-Quill',
    email: 'Zuzana.Quill@Example.org',
    phone: '+420 555 019 283',
    note: 'The spare key is under the blue flowerpot & "that’s it".',
  }
  let dir: GuardedDir
  let temporary: string
  let example: Awaited<ReturnType<typeof startExample>>
  let url: string

  beforeAll(async () => {
    dir = guardedDir('eaas-test-browser')
    temporary = join(dir.path, 'example')
    mkdirSync(temporary)
    example = await startExample(dir, temporary)
    url = await example.listening
  }, START_TIMEOUT_MS)
  afterAll(async () => {
    await example?.stop()
    await dir?.remove()
  })

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
    expect(await page.locator('#requests pre').first().textContent()).toContain('"eaas.2.')

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

  /** Calls the broker as a user's page could, whatever its script says. */
  const asPageOf = async (user: string) => {
    const { headers, keys } = await signIn(user)
    const call = async (operation: string, body: object) => {
      const path = `${url}/api/eaas/v1/${operation === 'hash' ? 'hash' : `keys/${keys.key_id}/${operation}`}`
      const options = { method: 'POST', headers: { ...headers, origin: url }, body: JSON.stringify(body) }
      const response = await fetch(path, options)
      return { status: response.status, body: (await response.json()) as { wrapped_key: string; code: string } }
    }
    const { wrapped_key } = fromText(keys.index_key.replace('eaas.index.1.', 'eaas.1.')) // both begin alike (local-index.md 1)
    return { call, keys, indexKey: { wrapped_key, purpose: 'index', context: { model: 'customers' } } }
  }
  const dek = Buffer.alloc(32, 1).toString('base64')

  it('lets who may only write unwrap the index key, and nothing else', async () => {
    const { call, keys, indexKey } = await asPageOf('ben')
    expect((await call('unwrap', indexKey)).status).toBe(200)
    const wrapped = await call('wrap', { dek })
    expect(wrapped.status).toBe(200)
    const { wrapped_key } = wrapped.body
    expect((await call('unwrap', { wrapped_key })).status).toBe(403)
    for (const purpose of ['index', 'data']) {
      const { status } = await call('unwrap', { wrapped_key, purpose, context: { model: 'customers' } })
      expect([purpose, status]).toEqual([purpose, 403])
    }
    expect((await call('wrap', { dek, purpose: 'index' })).status).toBe(403)
    expect((await call('hash', { key_id: keys.key_id, value: 'ada@example.org' })).status).toBe(403)
  })

  it('lets who may only open rows not unwrap the index key, by which all indexes can be computed', async () => {
    const { wrapped_key: row } = (await (await asPageOf('ada')).call('wrap', { dek })).body
    const { call, keys, indexKey } = await asPageOf('cleo')
    expect((await call('unwrap', { wrapped_key: row })).status).toBe(200)
    const { wrapped_key, context } = indexKey
    const attempts: [object, string][] = [
      [indexKey, 'E_NOT_ALLOWED'],
      [{ wrapped_key }, 'E_WRAPPED_KEY'],
      [{ wrapped_key, purpose: 'data' }, 'E_WRAPPED_KEY'],
      [{ wrapped_key, purpose: 'data', context }, 'E_WRAPPED_KEY'],
      [{ wrapped_key, context }, 'E_WRAPPED_KEY'],
      [{ wrapped_key, purpose: 'stream', context }, 'E_WRAPPED_KEY'],
      [{ wrapped_key, purpose: 'INDEX', context }, 'E_VALIDATION'],
      [{ wrapped_key, purpose: ['index'], context }, 'E_VALIDATION'],
    ]
    for (const [body, code] of attempts) expect((await call('unwrap', body)).body.code, JSON.stringify(body)).toBe(code)
    expect((await call('hash', { key_id: keys.key_id, value: 'grace@example.org' })).status).toBe(403)
    expect((await call('rewrap', indexKey)).status).toBe(404)
  })

  it('stores no plaintext, whatever a page sends', async () => {
    const { headers, keys } = await signIn('ada')
    const add = async (row: object) => {
      const email_index = 'ab'.repeat(32)
      const body = JSON.stringify({ ...row, email_index })
      return (await fetch(`${url}/api/customers`, { method: 'POST', headers, body })).status
    }
    expect(await add(customer)).toBe(400)
    const zeros = (bytes: number) => Buffer.alloc(bytes).toString('base64')
    const sealedUnder = (key_id: string) => {
      const wrapped = { wrapped_key: zeros(65), key_id, key_version: 1 }
      return toText({ ...wrapped, ciphertext: zeros(16), iv: zeros(12), envelope_version: 2, commitment: zeros(32) })
    }
    const sealed = sealedUnder(keys.key_id)
    const row = { name: sealed, email: sealed, phone: sealed }
    for (const note of [customer.note, sealedUnder(crypto.randomUUID()), sealed.replace('eaas.2.', 'eaas.1.')])
      expect(await add({ ...row, note })).toBe(400)
  })

  /** Begins a session, and returns its headers and what the page is told of the keys. */
  const signIn = async (user: string) => {
    const json = { 'content-type': 'application/json' }
    const session = await fetch(`${url}/api/session`, { method: 'POST', headers: json, body: JSON.stringify({ user }) })
    const cookie = session.headers.get('set-cookie')?.split(';')[0] ?? ''
    const keys = (await session.json()) as { key_id: string; index_key: string }
    return { headers: { ...json, cookie }, keys }
  }

  it('leaves nothing behind after Ctrl-C', async () => {
    expect(await example.stop()).toBe(130)
    expect(readdirSync(temporary)).toEqual([])
    await expect(fetch(url)).rejects.toThrow()
  })
})

/** Starts the example as npm does, with a temporary folder of its own. */
async function startExample(dir: GuardedDir, temporary: string) {
  const inherited = Object.entries(process.env).filter(([name]) => !name.startsWith('EAAS_') && name !== 'NODE_ENV')
  const child = spawn(process.execPath, [join(root, 'examples/browser/main.mjs')], {
    env: {
      ...Object.fromEntries(inherited),
      TMPDIR: temporary,
      EXAMPLE_PORT: '0',
    },
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

/** Looks at all that left the page, and finds nothing that was typed. */
function expectNoPlaintext(requests: readonly RecordedRequest[], customer: Record<string, string>): void {
  expect(requests.length).toBeGreaterThan(10)
  for (const { method, target, headers, body } of requests) {
    const left = `${target}\n${headers}\n${body}`.toLowerCase()
    for (const form of Object.values(customer).flatMap(formsOf)) {
      expect(left.includes(form.toLowerCase()), `${method} ${target}`).toBe(false)
    }
  }
  expect(requests.some(({ body }) => body.includes('"eaas.2.'))).toBe(true) // bodies were looked at
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
