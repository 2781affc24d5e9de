// The console in Chromium where answers come late: a page shows what was asked for last, whichever answer comes last.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Caller, type Service, startService } from '../support/service/service.js'
import { delayAnswer, inChromium, signIn } from './chromium-pages.js'

const START_TIMEOUT_MS = 120_000
/** After this time the page of the log asks for new entries again. */
const LIVE_MS = 3_000
/** Until then a page has drawn, and asked for what it shows. */
const DRAWN_MS = 300

inChromium('the console with late answers', ({ open }) => {
  let service: Service
  let owner: Caller

  beforeAll(async () => {
    service = await startService({ environment: { EAAS_CONSOLE: 'on' } })
    owner = await service.createTenant({ name: 'acme' })
  }, START_TIMEOUT_MS)
  afterAll(() => service?.close())

  /** Signs in, waits until the list of keys was read, and goes to the page of health, which asks for none of what the tests delay. */
  const openSignedIn = async (secret = owner.secret) => {
    const { page, close } = await open(`${service.url}/console#/keys`)
    const show = (hash: string) => page.evaluate((to) => location.assign(to), hash)
    await signIn({ page }, secret)
    await expect.poll(() => page.locator('.bar .count').innerText()).toMatch(/^\d+$/)
    await show('#/health')
    await page.getByRole('heading', { name: 'Health' }).waitFor()
    return { page, show, close }
  }
  const makeKey = async (name: string) => (await owner.call('POST', '/v1/keys', { name })).body

  it('shows the key that was chosen last', async () => {
    const [slow, chosen] = [await makeKey('slow'), await makeKey('chosen')]
    const { page, show, close } = await openSignedIn()
    const { asked, answer } = await delayAnswer(page, new RegExp(`/v1/keys/${slow.id}$`))
    await show(`#/keys/${slow.id}`)
    await asked
    await show(`#/keys/${chosen.id}`)
    await page.getByRole('heading', { name: 'chosen' }).waitFor()
    await answer()
    expect(await page.getByRole('heading', { level: 1 }).innerText()).toBe('chosen')
    await close()
  })

  it('shows the usage of the month that was chosen last', async () => {
    const month = new Date().toISOString().slice(0, 7)
    const { page, show, close } = await openSignedIn()
    const { asked, answer } = await delayAnswer(page, new RegExp(`/v1/usage\\?.*${month}`))
    await show(`#/usage?month=${month}`)
    await asked
    await show('#/usage?month=2020-01')
    await page.getByText('Nothing was done in this month.').waitFor()
    await answer()
    expect(await page.getByLabel('Month').inputValue()).toBe('2020-01')
    expect(await page.getByText('Nothing was done in this month.').count()).toBe(1)
    await close()
  })

  it('offers no link that was declined while it was read, and of two the one that was opened last', async () => {
    const other = await service.createTenant()
    const { page, show, close } = await openSignedIn()
    await page.getByRole('button', { name: 'Sign out' }).click()
    const asking = page.getByText('This link signs in to')
    const declined = await delayAnswer(page, /\/v1\/api-keys$/)
    await show(`#/sign-in/${other.secret}`)
    await declined.asked
    await page.getByRole('button', { name: 'Cancel' }).click()
    await declined.answer()
    expect(await asking.count()).toBe(0)
    const first = await delayAnswer(page, /\/v1\/api-keys$/)
    await show(`#/sign-in/${other.secret}`)
    await first.asked
    await show(`#/sign-in/${owner.secret}`)
    await asking.waitFor()
    await first.answer()
    expect(await page.getByRole('main').innerText()).toContain(owner.tenant.tenant_id)
    await close()
  })

  it('keeps what is typed for another day while the rights of one are read', async () => {
    const { page, show, close } = await openSignedIn()
    const { asked, answer } = await delayAnswer(page, /\/v1\/audit\?.*action=tenant.restate/)
    await show('#/rights')
    await asked
    await page.getByLabel('compared with').pressSequentially('2020-01')
    await answer()
    await page.getByRole('region', { name: 'Limits' }).waitFor()
    expect(await page.getByLabel('compared with').inputValue()).toBe('2020-01')
    await close()
  })

  it('shows the rights of the day that was chosen last', async () => {
    const { page, show, close } = await openSignedIn()
    const { asked, answer } = await delayAnswer(page, /\/v1\/audit\?.*action=tenant.restate/)
    await show('#/rights?at=2999-01-01')
    await asked
    await show('#/rights?at=2020-01-01')
    await page.locator('.empty').first().waitFor()
    await answer()
    expect(await page.getByRole('region', { name: 'Limits' }).count()).toBe(0)
    await close()
  })

  describe('a live log', () => {
    let busy: Caller
    let newest: number

    beforeAll(async () => {
      busy = await service.createTenant({ name: 'busy' })
      const keys = Array.from({ length: 150 }, (_, at) => ({ name: `orders/${at}` }))
      await busy.call('POST', '/v1/batch/keys', { keys })
      newest = (await busy.call('GET', '/v1/audit?limit=1')).body.logs[0].id
    })

    it('shows no entries before the newest ones were read', async () => {
      const { page, show, close } = await openSignedIn(busy.secret)
      const { asked, answer } = await delayAnswer(page, /\/v1\/audit\?/)
      const rows = page.getByRole('table', { name: 'Entries' }).locator('tbody tr')
      await show('#/log?live=1')
      await asked
      await page.waitForTimeout(LIVE_MS + 1_000)
      expect(await rows.count()).toBe(0)
      await answer()
      expect(await rows.first().innerText()).toMatch(new RegExp(`\t${newest}$`))
      await close()
    })

    it('reads the newest entries again if they could not be read', async () => {
      const { page, show, close } = await openSignedIn(busy.secret)
      await page.route(/\/v1\/audit\?/, (route) => route.fulfill({ json: {} }), { times: 1 })
      await show('#/log?live=1')
      await page.getByRole('alert').waitFor()
      const rows = page.getByRole('table', { name: 'Entries' }).locator('tbody tr')
      expect(await rows.first().innerText()).toMatch(new RegExp(`\t${newest}$`))
      expect(await page.getByRole('alert').count()).toBe(0)
      await close()
    })

    it('shows entries that are written where there was none', async () => {
      const { page, show, close } = await openSignedIn(busy.secret)
      await show('#/log?live=1&action=key.rotate')
      await page.getByText('No entry matches.').waitFor()
      const { keys } = (await busy.call('GET', '/v1/keys?limit=1')).body
      await busy.call('POST', `/v1/keys/${keys[0].id}/rotate`)
      await page.getByRole('table', { name: 'Entries' }).getByRole('cell', { name: 'key.rotate' }).waitFor()
      await close()
    })
  })

  it('lists a key as it was changed while the list was read', async () => {
    const key = await makeKey('closed here')
    const { page, show, close } = await openSignedIn()
    const { asked, answer } = await delayAnswer(page, /\/v1\/keys\?/)
    await show('#/keys')
    await asked
    await show(`#/keys/${key.id}`)
    await page.getByRole('button', { name: 'Disable' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Disable' }).click()
    await page.getByRole('button', { name: 'Enable' }).waitFor()
    await show('#/keys')
    await answer()
    expect(await page.locator('tr', { hasText: 'closed here' }).innerText()).toContain('disabled')
    await close()
  })

  it('lists a key that was made while the list was read', async () => {
    const { page, show, close } = await openSignedIn()
    const { asked, answer } = await delayAnswer(page, /\/v1\/keys\?/)
    await show('#/keys')
    await asked
    await page.getByRole('button', { name: 'New key' }).click()
    await page.getByRole('dialog').getByRole('textbox').fill('made here')
    await page.getByRole('button', { name: 'Create' }).click()
    await page.getByRole('heading', { name: 'made here' }).waitFor()
    await show('#/keys')
    await answer()
    await page.getByRole('link', { name: 'made here' }).waitFor({ timeout: 5_000 })
    await close()
  })

  describe('keys that cannot be read', () => {
    const KEYS = /\/v1\/keys\?/

    it('are not said to be none', async () => {
      const none = await service.createTenant({ name: 'none' })
      const { page, close, complaints } = await open(`${service.url}/console#/keys`)
      await page.route(KEYS, async (route) => {
        // The page shall wait for the reading that the sign-in began.
        await page.getByRole('heading', { name: 'Keys' }).waitFor()
        await page.waitForTimeout(DRAWN_MS)
        await route.fulfill({ json: {} })
      })
      await signIn({ page }, none.secret)
      await page.getByRole('alert').waitFor()
      expect(await page.locator('.empty').count()).toBe(0)
      await page.unroute(KEYS)
      await page.getByRole('button', { name: 'Reload' }).click()
      await page.getByText('There is no key yet').waitFor()
      expect(await page.getByRole('alert').count()).toBe(0)
      expect(complaints).toEqual([])
      await close()
    })

    it('are no error of a page that shows none', async () => {
      const { page, close, complaints } = await open(`${service.url}/console#/health`)
      await page.route(KEYS, (route) => route.fulfill({ json: {} }))
      const read = page.waitForResponse(KEYS)
      await signIn({ page }, owner.secret)
      await read
      await page.waitForTimeout(DRAWN_MS)
      expect(await page.getByRole('alert').count()).toBe(0)
      expect(complaints).toEqual([])
      await close()
    })
  })

  it('says why it is not known who used a key', async () => {
    const key = await makeKey('used by nobody')
    const { page, show, close } = await openSignedIn()
    const openDialog = () => page.getByRole('button', { name: 'Disable' }).click()
    const dialog = page.getByRole('dialog')
    const { answer } = await delayAnswer(page, /\/v1\/audit\?/)
    await show(`#/keys/${key.id}`)
    await openDialog()
    await dialog.getByText('not known: the log is still being read.').waitFor()
    await answer()
    await dialog.getByText('Nobody used it').waitFor()
    await dialog.getByRole('button', { name: 'Cancel' }).click()

    await show('#/health')
    await page.getByRole('heading', { name: 'Health' }).waitFor()
    await page.route(/\/v1\/audit\?/, (route) => route.fulfill({ json: {} }))
    await show(`#/keys/${key.id}`)
    await openDialog()
    await dialog.getByText('not known: the log could not be read.').waitFor()
    await close()

    const permissions = ['keys:read', 'keys:disable', 'api_keys:read']
    const reader = (await owner.call('POST', '/v1/api-keys', { name: 'no auditor', permissions })).body
    const without = await openSignedIn(reader.secret)
    await without.show(`#/keys/${key.id}`)
    await without.page.getByRole('button', { name: 'Disable' }).click()
    await without.page.getByText('not known: this API key may not read the log.').waitFor()
    await without.close()
  })

  it('lists an API key as it was changed while the list was read', async () => {
    await owner.call('POST', '/v1/api-keys', { name: 'revoked here', permissions: ['wrap'] })
    const { page, show, close } = await openSignedIn()
    const { asked, answer } = await delayAnswer(page, '**/v1/api-keys')
    await show('#/api-keys')
    await asked
    await page.getByRole('button', { name: 'revoked here' }).click()
    await page.getByRole('button', { name: 'Revoke …' }).click()
    await page.getByLabel('Type revoked here').fill('revoked here')
    await page.getByRole('dialog').getByRole('button', { name: 'Revoke' }).click()
    const row = page.locator('tr', { hasText: 'revoked here' }).first()
    await expect.poll(() => row.innerText()).toContain('revoked\t')
    await answer()
    expect(await row.innerText()).toContain('revoked\t')
    await close()
  })
})
