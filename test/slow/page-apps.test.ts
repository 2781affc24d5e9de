// The applications that pages of the SDK begin with, as a reader makes them: installed from the npm registry, with our packages as npm would
// publish them, built, started, and used once. What cannot be had is skipped, and says why.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createClient, text } from '@eaas/sdk'
import { chromium } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { backend } from '../support/database/database.js'
import { findOrInstallChromium } from '../support/platforms/browsers.js'
import { installRuntime } from '../support/platforms/install-runtime.js'
import { installPackages, type PageApp, readPageApp, startApp, writeApp } from '../support/platforms/page-app.js'
import { expectCustomers, expectSealed } from '../support/platforms/served-customers.js'

const SERVERS = 'packages/sdk/docs/servers.md'
const FULL_STACK = 'packages/sdk/docs/full-stack.md'
const ADA = { name: 'Ada Lovelace', email: 'Ada@example.org' }

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-page-apps-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

/** @param path folders of programs that its commands call */
async function makeApp(app: PageApp, name: string, path: readonly string[] = []) {
  const home = join(folder, name)
  writeApp(app, home)
  await installPackages(app, home)
  return () => startApp(app, home, path)
}

describe.runIf(backend() === 'postgres')('the application of a page:', () => {
  it.each(['Fastify', 'Hono', 'Nest'])('%s', async (heading) => {
    const app = readPageApp(SERVERS, heading)
    const start = await makeApp(app, heading)
    const running = await start()
    try {
      await expectCustomers(running)
    } finally {
      await running.stop()
    }
  })

  it('Bun', async ({ skip }) => {
    const bun = await installRuntime(folder, 'bun@1').catch((error: unknown) => skip(`cannot be had: ${error}`))
    const start = await makeApp(readPageApp(SERVERS, 'Bun'), 'Bun', [dirname(bun)])
    const running = await start()
    try {
      await expectCustomers(running)
    } finally {
      await running.stop()
    }
  })

  it.each([
    ['Next.js', 'lib/customers.ts', ''],
    ['React Router', 'app/customers.server.ts', '?index'],
    ['SvelteKit', 'src/lib/server/customers.ts', ''],
  ])('%s', async (heading, place, action) => {
    const start = await makeApp(readPageApp(FULL_STACK, heading, { 'customers.ts': place }), heading)
    const running = await start()
    const { url, rows, stop } = running
    try {
      const page = await (await fetch(url)).text()
      const form = new FormData()
      for (const [name, value] of Object.entries(ADA)) form.append(name, value)
      for (const [, name = ''] of page.matchAll(/name="(\$ACTION[^"]*)"/g)) form.append(name, '')
      const origin = heading === 'SvelteKit' ? 'https://app.example.org' : url // what ORIGIN says there
      const acted = await fetch(url + action, { method: 'POST', body: form, headers: { origin } })
      const answer = await acted.text()
      expect(acted.status, answer).toBe(200)
      await expectSealed(await rows('customers'))
      // The page shows the customer, and neither an envelope nor an index is anywhere in it.
      const shown = await (await fetch(url)).text()
      expect(shown).toContain(ADA.name)
      expect(shown).toContain(ADA.email)
      expect(shown).not.toMatch(/eaas\.2\.|[0-9a-f]{64}|emailIndex|email_index/)
    } finally {
      await stop()
    }
  })

  it('a form that is sealed partly in the page and partly in the action', async ({ skip }) => {
    const executablePath = findOrInstallChromium() ?? skip('there is no Chromium')
    const start = await makeApp(readPageApp('packages/sdk/docs/sealed-forms.md', 'The application'), 'sealed-form')
    const { url, service, rows, stop } = await start()
    const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] })
    try {
      const context = await browser.newContext()
      await context.addCookies([{ name: 'session', value: 'demo', url }])
      const tab = await context.newPage()
      const sent: string[] = []
      tab.on('request', (request) => sent.push(request.postData() ?? ''))
      await tab.goto(url)
      await tab.fill('textarea', 'sleeps badly')
      await tab.fill('input[type=email]', ADA.email)
      await tab.click('button')
      await tab.getByText(/[Ss]ent/).waitFor()
      expect(await tab.locator('output').textContent()).toBe('Sent')
      expect(sent.join()).toContain(ADA.email)
      expect(sent.join()).not.toContain('sleeps')

      const sealed = expect.stringMatching(/^eaas\.2\./)
      const stored = await rows('intakes')
      const index = expect.stringMatching(/^[0-9a-f]{64}$/)
      expect(stored).toEqual([{ id: expect.any(String), complaint: sealed, email: sealed, email_index: index }])
      expect(service.entries().map(({ action }) => action)).not.toContain('key.unwrap')
      expect(service.entries().find(({ metadata }) => metadata?.on_behalf_of === 'ada')?.action).toBe('key.wrap')

      // The envelope is bound to the id that the page made, so that a reader's model opens it.
      const eaas = createClient(service)
      const fields = { complaint: text(), email: text({ index: 'email_index', normalize: ['trim', 'lowercase'] }) }
      const reader = eaas.model({ name: 'intakes', key: 'intakes', bind: ['id'], format: 'text', fields })
      expect(await reader.decrypt(stored[0] as never)).toMatchObject({ complaint: 'sleeps badly', email: ADA.email })
      eaas.close()

      // Plaintext in place of the envelope is not stored, and without the session nothing is.
      await tab.route(`${url}/`, async (route) => {
        const body = route
          .request()
          .postData()
          ?.replace(/eaas\.2\.[\w.-]+/, 'sleeps badly')
        await route.continue(body === undefined ? {} : { postData: body })
      })
      await tab.fill('textarea', 'again')
      await tab.fill('input[type=email]', ADA.email)
      await tab.click('button')
      await tab.getByText('Not sent').waitFor()
      await tab.unrouteAll()
      await tab.reload()
      await context.clearCookies()
      await tab.fill('textarea', 'again')
      await tab.fill('input[type=email]', ADA.email)
      await tab.click('button')
      await tab.getByText('Not sent').waitFor()
      expect(await rows('intakes')).toHaveLength(1)
    } finally {
      await browser.close()
      await stop()
    }
  })
})
