// The console as its users see it, in Chromium: signed in, a key made and rotated, its entries found, and nothing left behind.
import { readFileSync } from 'node:fs'
import { gzipSync } from 'node:zlib'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findConsoleDirectory } from '../../packages/server/src/package-directory.js'
import { type Caller, type Service, startService } from '../support/service/service.js'
import { findBarriers } from './barriers.js'
import { inChromium, NOTHING_STORED, type OpenedPage, signIn, stored, weakContrasts } from './chromium-pages.js'

const START_TIMEOUT_MS = 120_000
/** After this time the page of the log asks for new entries again. */
const LIVE_MS = 3_000
/** Of the first page, with all that it loads until the list of keys is shown. */
const MOST_GZIP_BYTES = 90 * 1_024

inChromium('the console', ({ open }) => {
  let service: Service
  let owner: Caller

  beforeAll(async () => {
    service = await startService({ environment: { EAAS_CONSOLE: 'on' } })
    owner = await service.createTenant({ name: 'acme' })
  }, START_TIMEOUT_MS)
  afterAll(() => service?.close())

  it('makes a key, rotates it, and shows the entries', async () => {
    const opened = await open(`${service.url}/console`)
    const { page, requests, complaints, violations, close } = opened
    await signIn(opened, owner.secret)
    await page.getByText('There is no key yet').waitFor()

    await page.getByRole('button', { name: 'New key' }).click()
    await page.getByRole('dialog').getByRole('textbox').fill('customers/ada')
    await page.getByRole('button', { name: 'Create' }).click()
    await page.getByRole('heading', { name: 'customers/ada' }).waitFor()
    await page.getByRole('button', { name: 'Rotate' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Rotate' }).click()
    await expect.poll(() => page.getByRole('table', { name: 'Versions' }).locator('tbody tr').count()).toBe(2)

    await page.getByRole('link', { name: 'All entries of this key' }).click()
    await page
      .getByRole('button', { name: /key\.rotate|ago|just now/ })
      .first()
      .waitFor()
    const rows = await page.getByRole('table', { name: 'Entries' }).locator('tbody tr').allInnerTexts()
    expect(rows.map((row) => row.split('\t')[1])).toEqual(['key.rotate', 'key.create'])
    expect(new URL(page.url()).hash).toMatch(/^#\/log\?key=[0-9a-f-]{36}$/)

    // Nothing is sent elsewhere, nothing stays, and the API key is in the headers of calls alone.
    expect(
      requests.filter((request) => !/^data:/.test(request.url()) && !request.url().startsWith(service.url)),
    ).toEqual([])
    expect(requests.filter((request) => request.url().includes(owner.secret))).toEqual([])
    expect(await page.evaluate(() => document.documentElement.outerHTML)).not.toContain(owner.secret)
    expect(await stored(page)).toEqual(NOTHING_STORED)
    expect(await page.evaluate(() => JSON.stringify(history.state))).toBe('null')
    expect(await violations()).toEqual([])
    expect(complaints).toEqual([])
    await page.reload()
    await page.getByLabel('API key').waitFor()
    expect(await page.getByLabel('API key').inputValue()).toBe('')
    await close()
  })

  it('lists the keys as they are whenever the list is opened', async () => {
    const { body: key } = await owner.call('POST', '/v1/keys', { name: 'closed meanwhile' })
    const opened = await open(`${service.url}/console`)
    const { page, close } = opened
    await signIn(opened, owner.secret)
    const row = page.locator('tr', { hasText: 'closed meanwhile' })
    await expect.poll(() => row.innerText()).toContain('active')
    await page.getByRole('link', { name: 'Log', exact: true }).click()
    await owner.call('DELETE', `/v1/keys/${key.id}`)
    await page.getByRole('link', { name: 'Keys', exact: true }).click()
    await expect.poll(() => row.innerText()).toContain('disabled')
    await close()
  })

  it('makes an API key, shows it once, and hides from it what it may not do', async () => {
    const opened = await open(`${service.url}/console#/api-keys`)
    const { page, close } = opened
    await signIn(opened, owner.secret)
    await page.getByRole('button', { name: 'New API key' }).click()
    await page.getByLabel('Name', { exact: true }).fill('reader')
    await page.locator('[value="keys:read"]').check()
    await page.locator('[value="api_keys:read"]').check()
    await page.getByLabel('Only on these keys').check()
    await page.getByLabel('Names, ids, or folders').fill('customers/*')
    await page.getByRole('button', { name: 'Create' }).click()
    const secret = await page.locator('output').innerText()
    await page.getByRole('button', { name: 'I stored it' }).click()
    expect(await page.evaluate(() => document.documentElement.outerHTML)).not.toContain(secret)
    await page.getByRole('button', { name: 'reader' }).click()
    await page.getByText('customers/*').first().waitFor()
    await page.getByRole('button', { name: 'Sign out' }).click()

    await signIn(opened, secret)
    const links = await page.getByRole('navigation').getByRole('link').allInnerTexts()
    expect(links).toEqual(['Keys', 'API keys', 'Health', 'Verify'])
    expect(await page.getByRole('button', { name: 'New API key' }).count()).toBe(0)
    await page.keyboard.press('g')
    await page.keyboard.press('k')
    await page.getByRole('link', { name: 'customers/ada' }).waitFor()
    expect(await page.getByRole('button', { name: 'New key' }).count()).toBe(0)
    await close()
  })

  it('shows for what a data key was opened, tells it by the filter, and keeps the filter in the URL', async () => {
    const { body: key } = await owner.call('POST', '/v1/keys', { name: 'records' })
    const dek = Buffer.alloc(32, 7).toString('base64')
    for (const row of ['7', '8']) await owner.call('POST', `/v1/keys/${key.id}/wrap`, { dek, context: { row } })
    const opened = await open(`${service.url}/console#/log?context=row%3D7`)
    await signIn(opened, owner.secret)
    const rows = opened.page.getByRole('table', { name: 'Entries' }).locator('tbody tr')
    await expect.poll(() => rows.allInnerTexts()).toEqual([expect.stringContaining('row=7')])
    await opened.page.getByLabel('Context, as pairs').fill('row=8')
    await opened.page.keyboard.press('Enter')
    await expect.poll(() => rows.allInnerTexts()).toEqual([expect.stringContaining('row=8')])
    expect(opened.page.url()).toContain('context=row%3D8')
    await rows.first().getByRole('button').first().click()
    const { logs } = (await owner.call('GET', '/v1/audit?limit=1')).body
    const command = `npx @eaas/audit prove EXPORT ${logs[0].id} --out ${logs[0].id}.proof`
    await opened.page.getByRole('button', { name: `Copy ${command}` }).waitFor()
    expect(await opened.page.locator('dl.facts').innerText()).toContain(command)
    const beside = opened.page.waitForEvent('popup')
    await opened.page.getByRole('link', { name: 'from an export, in the browser' }).click()
    const verifier = await beside
    expect(await verifier.getByLabel('Entries to prove').inputValue()).toBe(String(logs[0].id))
    await verifier.close()
    await opened.page.getByRole('button', { name: 'Sign out' }).waitFor() // still signed in
    for (const [name, label] of [
      ['from', 'From this day or time of UTC'],
      ['entry', 'Only the entry of this number'],
    ] as const) {
      await opened.page.getByLabel(label).fill('yesterday')
      await opened.page.keyboard.press('Enter')
      await expect.poll(() => opened.page.getByRole('alert').innerText()).toMatch(new RegExp(`^${name} must be`))
      expect(await rows.count()).toBe(0)
      await opened.page.getByLabel(label).fill('')
    }
    await opened.close()
  })

  it('names no time of a newest entry that the log has not kept', async () => {
    const opened = await open(`${service.url}/console#/health`)
    const { page, close } = opened
    await signIn(opened, owner.secret)
    const verified = (await owner.call('GET', '/v1/audit/verify')).body
    const json = { ...verified, head: { ...verified.head, created_at: null } }
    await page.route('**/v1/audit/verify', (route) => route.fulfill({ json }))
    await page.getByRole('button', { name: 'Verify now' }).click()
    const facts = page.locator('dl', { hasText: 'Verdict' })
    await facts.getByText('valid', { exact: true }).waitFor()
    expect(await facts.locator('dt').allInnerTexts()).toEqual(['Verdict', 'Entries', 'Checkpoint'])
    await close()
  })

  it('signs in by a link once, and leaves nothing in the URL that still works', async () => {
    const permissions = ['keys:read', 'api_keys:read', 'api_keys:manage']
    const { body } = await owner.call('POST', '/v1/api-keys', { name: 'eaas console', permissions })
    const link = `${service.url}/console#/sign-in/${body.secret}`
    const { page, close } = await open('about:blank')
    await page.clock.setSystemTime(Date.now() + 3 * 86_400_000) // a browser's clock says nothing of the session's end
    await page.goto(link)
    await page.getByText('This link signs in to').waitFor()
    const { tenant_id, name } = owner.tenant
    for (const said of [name, tenant_id, 'keys:read, api_keys:read.'])
      expect(await page.getByRole('main').innerText()).toContain(said)
    expect((await service.caller(body.secret).call('GET', '/v1/keys')).status).toBe(200) // nothing has happened yet
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('button', { name: 'Sign out' }).waitFor()
    expect(page.url()).toBe(`${service.url}/console#/`)
    expect(await page.getByRole('button', { name: 'New API key' }).count()).toBe(0)
    expect((await service.caller(body.secret).call('GET', '/v1/keys')).status).toBe(401)
    const { api_keys } = (await owner.call('GET', '/v1/api-keys')).body
    const [session] = api_keys.filter(
      ({ name, status }: Record<string, string>) => name === 'eaas console' && status === 'active',
    )
    expect(session.permissions).toEqual(['keys:read', 'api_keys:read'])
    expect(Date.parse(session.expires_at) - Date.now()).toBeLessThanOrEqual(3_600_000)
    await page.evaluate((hash) => location.assign(hash), `#/sign-in/${body.secret}`)
    await expect.poll(() => page.getByRole('alert').innerText()).toContain('This link was used')
    expect(page.url()).toBe(`${service.url}/console#/`)
    await page.getByRole('button', { name: 'Cancel' }).click()
    await page.getByRole('button', { name: 'Sign out' }).waitFor() // as before the link
    const other = await service.createTenant()
    await page.evaluate((hash) => location.assign(hash), `#/sign-in/${other.secret}`)
    await page.getByText('that session ends').waitFor()
    const asked = await page.getByRole('main').innerText()
    for (const said of [other.tenant.tenant_id, name]) expect(asked).toContain(said)
    await page.getByRole('button', { name: 'Cancel' }).click()
    await page.getByRole('banner').getByText(name, { exact: true }).waitFor()
    expect((await other.call('GET', '/v1/api-keys')).body.count).toBe(1) // and no session was made there
    await close()
  })

  const openLink = async (page: Page) => {
    const permissions = ['keys:read', 'api_keys:read', 'api_keys:manage']
    const { body } = await owner.call('POST', '/v1/api-keys', { name: 'link', permissions })
    await page.goto('about:blank')
    await page.goto(`${service.url}/console#/sign-in/${body.secret}`)
    return body
  }
  const accept = (page: Page) => page.getByRole('button', { name: 'Sign in' }).click()
  const active = async () =>
    (await owner.call('GET', '/v1/api-keys')).body.api_keys.filter(
      ({ name, status }: Record<string, string>) => name === 'link' && status === 'active',
    )

  it('leaves no API key behind where the sign-in fails, also because another browser was faster', async () => {
    const opened = await open('about:blank')
    const { id } = await openLink(opened.page)
    await opened.page.getByText('This link signs in to').waitFor()
    const path = `**/v1/api-keys/${id}`
    await opened.page.route(path, (route) => route.abort())
    await accept(opened.page)
    await opened.page.getByRole('alert').waitFor()
    await expect.poll(async () => (await active()).map((one: { id: string }) => one.id)).toEqual([id])
    await opened.page.unroute(path)
    await opened.page.route(path, async (route) => {
      await owner.call('DELETE', `/v1/api-keys/${id}`)
      await route.continue()
    })
    await accept(opened.page)
    await expect.poll(() => opened.page.getByRole('alert').innerText()).toContain('This link was used')
    await expect.poll(active).toEqual([])
    expect(await opened.page.getByRole('button', { name: 'Sign out' }).count()).toBe(0)
    await opened.close()
  })

  describe('signing out', () => {
    const ofLink = async (page: Page) => {
      await openLink(page)
      await page.getByText('This link signs in to').waitFor()
      await accept(page)
      await page.getByRole('button', { name: 'Sign out' }).waitFor()
    }
    const signOut = ({ page }: OpenedPage) => page.getByRole('button', { name: 'Sign out' }).click()

    it('revokes the API key of a session that a link made, and says nothing', async () => {
      const opened = await open('about:blank')
      await ofLink(opened.page)
      const [session] = await active()
      await signOut(opened)
      await opened.page.getByLabel('API key').waitFor()
      await expect.poll(active).toEqual([])
      const [entry] = (await owner.call('GET', '/v1/audit?action=api_key.revoke&limit=1')).body.logs
      expect([entry.actor, entry.metadata.api_key_id]).toEqual([session.id, session.id])
      expect(await opened.page.getByRole('alert').count()).toBe(0)
      await opened.close()
    })

    it('signs out though that fails, and says until when the API key works and how to revoke it', async () => {
      const opened = await open('about:blank')
      await ofLink(opened.page)
      const [{ id }] = await active()
      await opened.page.route('**/v1/api-keys/self', (route) => route.abort())
      await signOut(opened)
      await opened.page.getByLabel('API key').waitFor()
      await expect
        .poll(() => opened.page.getByRole('alert').innerText())
        .toMatch(new RegExp(`was not revoked: .* It works until .* eaas api-key revoke ${id}$`))
      expect(await active()).toHaveLength(1)
      await owner.call('DELETE', `/v1/api-keys/${id}`)
      await opened.close()
    })

    it('comes with leaving the page, which the browser may show again as it was', async () => {
      const opened = await open('about:blank')
      await ofLink(opened.page)
      await opened.page.goto('about:blank')
      await expect.poll(active).toEqual([])
      await opened.page.goto(`${service.url}/console`)
      await signIn(opened, owner.secret)
      await opened.page.evaluate(() => dispatchEvent(new PageTransitionEvent('pagehide', { persisted: true })))
      await opened.page.getByLabel('API key').waitFor()
      await opened.close()
    })

    it('leaves an API key that was pasted as it is, and signing in with one ends the session of a link', async () => {
      const opened = await open('about:blank')
      await ofLink(opened.page)
      await opened.page.evaluate((hash) => location.assign(hash), '#/sign-in/x')
      await opened.page.getByRole('alert').waitFor() // no link
      await opened.page.getByLabel('API key').fill(owner.secret)
      await opened.page.getByRole('button', { name: 'Sign in' }).click()
      await expect.poll(active).toEqual([])
      await signOut(opened)
      await opened.page.getByLabel('API key').waitFor()
      expect(opened.requests.filter((request) => request.url().endsWith('/v1/api-keys/self'))).toHaveLength(1)
      expect((await owner.call('GET', '/v1/keys')).status).toBe(200)
      await opened.close()
    })
  })

  it('names what the entries name to whoever may read them alone, as it was called then', async () => {
    await owner.call('POST', '/v1/keys', { name: 'till\u200b' })
    const { body: auditor } = await owner.call('POST', '/v1/api-keys', { name: 'auditor', permissions: ['audit:read'] })
    await owner.call('PATCH', `/v1/api-keys/${auditor.id}`, { name: 'auditor ' })
    const opened = await open(`${service.url}/console#/log?action=key.create`)
    await signIn(opened, auditor.secret)
    const entries = opened.page.getByRole('table', { name: 'Entries' }).locator('tbody tr')
    await expect.poll(async () => (await entries.allInnerTexts())[0]).toContain('till\\u200b')
    await opened.page.evaluate(() => location.assign('#/rights'))
    const limits = opened.page.getByRole('region', { name: 'Limits' }).locator('tbody tr')
    await expect.poll(() => limits.allInnerTexts()).toContainEqual(expect.stringMatching(/^auditor\\u0020\t/))
    await opened.close()
  })

  it('shows the entry of a number alone: no other one where a purge took it, and none that is new', async () => {
    const { logs } = (await owner.call('GET', '/v1/audit?limit=1')).body
    const opened = await open(`${service.url}/console#/keys`)
    const { page, close } = opened
    await signIn(opened, owner.secret)
    await expect.poll(() => page.locator('.bar .count').innerText()).toMatch(/^\d+$/)
    const asked: string[] = []
    await page.route(/\/v1\/audit\?/, (route) => {
      asked.push(route.request().url())
      return route.fulfill({ json: { logs: [{ ...logs[0], id: 101 }], count: 1, total: 900, limit: 1, offset: 0 } })
    })
    await page.evaluate(() => location.assign('#/log?entry=5&live=1'))
    await page.getByText('No entry matches.').waitFor()
    expect(await page.locator('.bar .count').innerText()).toBe('0')
    await page.waitForTimeout(LIVE_MS + 1_000)
    expect(new Set(asked).size).toBe(1)
    expect(await page.getByRole('button', { name: 'Live' }).isDisabled()).toBe(true)
    await page.evaluate(() => location.assign('#/log?entry=101'))
    await expect.poll(() => page.getByRole('table', { name: 'Entries' }).locator('tbody tr').count()).toBe(1)
    expect(await page.locator('.bar .count').innerText()).toBe('1')
    await close()
  })

  it('reads the log to its beginning, however many entries are written while it is shown', async () => {
    const busy = await service.createTenant({ name: 'busy' })
    const makeKeys = (folder: string) => {
      const keys = Array.from({ length: 150 }, (_, at) => ({ name: `${folder}/${at}` }))
      return busy.call('POST', '/v1/batch/keys', { keys })
    }
    await makeKeys('before')
    const opened = await open(`${service.url}/console#/log`)
    const { page, requests, close } = opened
    await signIn(opened, busy.secret)
    const table = page.getByRole('table', { name: 'Entries' })
    await expect.poll(() => table.getAttribute('aria-rowcount')).toBe('100')
    await makeKeys('meanwhile')
    const lastRow = async () => {
      await page.keyboard.press('End')
      return (await table.locator('tbody tr').allInnerTexts()).at(-1)
    }
    await expect.poll(lastRow, { timeout: 20_000 }).toMatch(/\t1$/)
    const asked = requests.map((request) => new URL(request.url())).filter(({ pathname }) => pathname === '/v1/audit')
    expect(asked.map(({ searchParams }) => searchParams.get('offset'))).toEqual(['0', '100', '200', '300'])
    await close()
  })

  it('shows no rights if there are more changes than it reads, because it may lack those that took rights away', async () => {
    const opened = await open(`${service.url}/console#/keys`)
    const { page, close } = opened
    await signIn(opened, owner.secret)
    const { logs } = (await owner.call('GET', '/v1/audit?action=api_key.create&limit=1')).body
    await page.route(/\/v1\/audit\?.*action=api_key\.create/, (route) => {
      const after = Number(new URL(route.request().url()).searchParams.get('after_id') ?? 0)
      const many = Array.from({ length: 100 }, (_, at) => ({ ...logs[0], id: after + 1 + at }))
      return route.fulfill({ json: { logs: many, count: 100, total: 30_000, limit: 100, offset: 0 } })
    })
    await page.evaluate(() => location.assign('#/rights'))
    const said = page.getByText('There are more than 20000 changes of rights')
    await said.waitFor()
    expect(await said.innerText()).toMatch(/run npx @eaas\/audit rights FILE --at \S+Z on the export\.$/)
    expect(await page.locator('main table, .empty').count()).toBe(0)
    await close()
  })

  it('says why an API key is refused, with the id of the request', async () => {
    const { page, close } = await open(`${service.url}/console`)
    await page.getByLabel('API key').fill(`${owner.secret.slice(0, -1)}${owner.secret.endsWith('a') ? 'b' : 'a'}`)
    await page.getByRole('button', { name: 'Sign in' }).click()
    const problem = await page.getByRole('alert').innerText()
    expect(problem).toMatch(/^Unauthorized E_UNAUTHORIZED/)
    expect(problem).toMatch(/Request \S+$/)
    await close()
  })

  it.each(['light', 'dark'] as const)(
    'has text that stands out, no barriers, and fits a phone, %s',
    async (colorScheme) => {
      const opened = await open(`${service.url}/console`, { colorScheme, viewport: { width: 390, height: 800 } })
      const { page, close } = opened
      await signIn(opened, owner.secret)
      for (const name of ['keys', 'api-keys', 'log', 'rights', 'usage', 'health']) {
        await page.evaluate((hash) => location.assign(hash), `#/${name}`)
        await page.getByRole('heading', { level: 1 }).waitFor()
        await page.locator('table, dl, .empty').first().waitFor()
        expect([name, await weakContrasts(page)]).toEqual([name, []])
        expect([name, await findBarriers(page)]).toEqual([name, []])
        const [width, room] = await page.evaluate(() => [
          document.documentElement.scrollWidth,
          document.documentElement.clientWidth,
        ])
        expect([name, (width ?? 0) <= (room ?? 0)]).toEqual([name, true])
      }
      await close()
    },
  )

  it('loads at most 90 KB, compressed, until the keys are shown', async () => {
    const opened = await open(`${service.url}/console/`)
    await signIn(opened, owner.secret)
    await opened.page.getByRole('link', { name: 'customers/ada' }).waitFor()
    const paths = opened.requests
      .map((request) => new URL(request.url()).pathname)
      .filter((path) => /^\/console\/(.|$)/.test(path))
    const files = paths.map((path) =>
      readFileSync(`${findConsoleDirectory()}${path === '/console/' ? '/console.html' : path}`),
    )
    const bytes = files.reduce((sum, file) => sum + gzipSync(file, { level: 9 }).length, 0)
    expect(files.length).toBeGreaterThan(3)
    expect(bytes).toBeLessThan(MOST_GZIP_BYTES)
    await opened.close()
  })
})
