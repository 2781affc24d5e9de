// The console as operators see it, in Chromium: tenants made, suspended and resumed, and what guards the logs.
import { INSTALLATION_ID, OPERATOR_PERMISSIONS, type OperatorPermission } from '@eaas/protocol'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { createApiKey } from '../../packages/server/src/core/api/api-keys.js'
import { performAsSystem } from '../../packages/server/src/core/runner/perform.js'
import { updateTenant } from '../../packages/server/src/operators/tenants.js'
import { type Service, startService } from '../support/service/service.js'
import { findBarriers } from './barriers.js'
import { delayAnswer, inChromium, NOTHING_STORED, signIn, stored, weakContrasts } from './chromium-pages.js'

const START_TIMEOUT_MS = 120_000

inChromium('the console of operators', ({ open }) => {
  let service: Service

  beforeAll(async () => {
    service = await startService({ environment: { EAAS_CONSOLE: 'on', EAAS_OPERATOR_API: 'on' } })
  }, START_TIMEOUT_MS)
  afterAll(() => service?.close())

  const operatorKey = async (permissions: readonly OperatorPermission[]) => {
    const operation = createApiKey({ name: 'operator', permissions: [...permissions] })
    return (await performAsSystem(service.services, INSTALLATION_ID, operation)).secret
  }

  it('makes a tenant, suspends it and resumes it', async () => {
    const secret = await operatorKey(OPERATOR_PERMISSIONS)
    const opened = await open(`${service.url}/console`)
    const { page, requests, complaints, violations, close } = opened
    await signIn(opened, secret)
    await page.getByRole('heading', { name: 'Tenants' }).waitFor()
    await page.getByRole('button', { name: 'New tenant' }).click()
    await page.getByRole('dialog').getByLabel('Name').fill('acme')
    await page.getByRole('button', { name: 'Create' }).click()
    const first = await page.locator('output').innerText()
    expect((await service.caller(first).call('GET', '/v1/keys')).status).toBe(200)
    await page.getByRole('button', { name: 'I stored it' }).click()

    await page.getByRole('button', { name: 'acme' }).click()
    await page.getByRole('button', { name: 'Suspend …' }).click()
    const suspend = page.getByRole('dialog').getByRole('button', { name: 'Suspend' })
    await page.getByLabel('Reason').fill('not paid')
    expect(await suspend.isDisabled()).toBe(true)
    await page.getByLabel('Type acme').fill('acme')
    await suspend.click()
    await page.getByRole('button', { name: 'Resume …' }).waitFor()
    expect((await service.caller(first).call('GET', '/v1/keys')).body.code).toBe('E_TENANT_SUSPENDED')
    await page.getByRole('button', { name: 'Resume …' }).click()
    await page.getByLabel('Reason').fill('paid')
    await page.getByRole('dialog').getByRole('button', { name: 'Resume' }).click()
    await page.getByRole('button', { name: 'Suspend …' }).waitFor()
    expect((await service.caller(first).call('GET', '/v1/keys')).status).toBe(200)

    await page.getByRole('button', { name: 'Settings …' }).click()
    await page.getByLabel('Values that it may encrypt').fill('1000')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('definition').filter({ hasText: '1,000' }).waitFor()

    expect(requests.filter((request) => request.url().includes('eaas_sk_'))).toEqual([])
    expect(await page.evaluate(() => document.documentElement.outerHTML)).not.toMatch(/eaas_sk_[0-9a-f]{32}_/)
    expect(await stored(page)).toEqual(NOTHING_STORED)
    expect([await violations(), complaints]).toEqual([[], []])
    await page.getByRole('button', { name: 'Sign out' }).click()
    await page.getByLabel('API key').waitFor()
    await close()
  })

  it('sends only the settings that were changed, and so opens no server mode that somebody closed meanwhile', async () => {
    const { tenant } = await service.createTenant({ name: 'initech', envelope_only: false })
    const opened = await open(`${service.url}/console#/tenants?q=initech`)
    const { page, close } = opened
    await signIn(opened, await operatorKey(OPERATOR_PERMISSIONS))
    await page.getByRole('button', { name: 'initech' }).click()
    await page.getByRole('button', { name: 'Settings …' }).click()
    await performAsSystem(service.services, tenant.tenant_id, updateTenant({ envelope_only: true }))
    await page.getByLabel('Values that it may encrypt').fill('500')
    await page.getByRole('button', { name: 'Save' }).click()
    await page.getByRole('definition').filter({ hasText: '500' }).waitFor()
    expect(await page.locator('dl.facts').innerText()).toMatch(/Server mode\s+closed/)
    await close()
  })

  it('tells tenants apart whose names look alike', async () => {
    for (const name of ['globex', 'glob\u200bex']) await service.createTenant({ name })
    const opened = await open(`${service.url}/console#/tenants?q=glob`)
    await signIn(opened, await operatorKey(['tenants:read']))
    const names = opened.page.getByRole('table', { name: 'Tenants' }).getByRole('button')
    await expect.poll(() => names.allInnerTexts()).toEqual(['globex', 'glob\\u200bex'])
    await opened.close()
  })

  it('lists the tenants of every page, of which some have rows that somebody changed', async () => {
    const opened = await open(`${service.url}/console#/tenants`)
    const { page, close } = opened
    // Answers as the server does: by rows, of which those that somebody changed stand apart.
    await page.route(/\/admin\/v1\/tenants\?/, (route) => {
      const { searchParams } = new URL(route.request().url())
      const [limit = 0, offset = 0] = ['limit', 'offset'].map((name) => Number(searchParams.get(name)))
      const rows = Array.from({ length: 2_003 }, (_, at) => `row ${at}`).slice(offset, offset + limit)
      const tampered = rows.filter((row) => ['row 5', 'row 1999', 'row 2001'].includes(row))
      const tenants = rows
        .filter((row) => !tampered.includes(row))
        .map((name) => ({ ...TENANT, tenant_id: name, name }))
      return route.fulfill({ json: { tenants, count: tenants.length, tampered } })
    })
    await signIn(opened, await operatorKey(['tenants:read']))
    await expect.poll(() => page.locator('.bar .count').innerText(), { timeout: 20_000 }).toBe('2,000')
    expect(await page.getByRole('alert').innerText()).toContain('The rows of row 5, row 1999, row 2001 were')
    await page.keyboard.press('End')
    await page.getByRole('button', { name: 'row 2002' }).waitFor()
    await close()
  })

  it('says what guards the logs, and what to do about an alarm', async () => {
    const opened = await open(`${service.url}/console#/installation`)
    const { page, close } = opened
    await signIn(opened, await operatorKey(['alarms:read']))
    await page.getByText('No log has an alarm.').waitFor()
    await page.getByText('Newest anchor').waitFor()
    await page.route('**/admin/v1/alarms', (route) =>
      route.fulfill({ json: { count: 1, alarms: [{ ...ALARM, tenant_id: '7'.repeat(32) }] } }),
    )
    await page.getByRole('button', { name: 'Reload' }).click()
    expect(await page.getByRole('alert').innerText()).toContain('eaas audit verify --installation')
    await close()
  })

  it('says that no log has an alarm only once the alarms were read', async () => {
    const opened = await open(`${service.url}/console#/installation`)
    const { page, close } = opened
    const quiet = page.getByText('No log has an alarm.')
    const first = await delayAnswer(page, '**/admin/v1/alarms')
    await signIn(opened, await operatorKey(['alarms:read']))
    await page.getByText('Newest anchor').waitFor()
    expect(await quiet.count()).toBe(0)
    await first.answer()
    await quiet.waitFor()
    await page.route('**/admin/v1/alarms', (route) => route.fulfill({ status: 502 }))
    await page.getByRole('button', { name: 'Reload' }).click()
    expect(await page.getByRole('alert').innerText()).toContain('502')
    expect(await quiet.count()).toBe(0)
    await close()
  })

  it('says what an API key of operators lacks, and which server takes none', async () => {
    const opened = await open(`${service.url}/console`)
    await signIn(opened, await operatorKey(['alarms:read']))
    expect(await opened.page.getByRole('alert').innerText()).toMatch(
      /E_MISSING_PERMISSION[\s\S]*eaas operator-key create/,
    )
    await opened.close()
    const without = await startService({ environment: { EAAS_CONSOLE: 'on' } })
    const { page, close } = await open(`${without.url}/console`)
    await page.getByLabel('API key').fill(await operatorKey(['alarms:read']))
    await page.getByRole('button', { name: 'Sign in' }).click()
    expect(await page.getByRole('alert').innerText()).toContain('EAAS_OPERATOR_API=on')
    await close()
    await without.close()
  })

  it('asks before a link ends the session of an operator', async () => {
    const opened = await open(`${service.url}/console`)
    const { page, close } = opened
    await signIn(opened, await operatorKey(OPERATOR_PERMISSIONS))
    const { secret } = await service.createTenant()
    await page.evaluate((hash) => location.assign(hash), `#/sign-in/${secret}`)
    await page.getByText('You are signed in as operator: that session ends.').waitFor()
    await page.getByRole('button', { name: 'Cancel' }).click()
    await page.getByRole('heading', { name: 'Tenants' }).waitFor()
    await close()
  })

  it.each(['light', 'dark'] as const)('has no barriers and fits a phone, %s', async (colorScheme) => {
    const opened = await open(`${service.url}/console`, { colorScheme, viewport: { width: 390, height: 800 } })
    const { page, close } = opened
    await signIn(opened, await operatorKey(OPERATOR_PERMISSIONS))
    for (const name of ['tenants', 'installation']) {
      await page.evaluate((hash) => location.assign(hash), `#/${name}`)
      await page.locator('table, dl').first().waitFor()
      expect([name, await weakContrasts(page), await findBarriers(page)]).toEqual([name, [], []])
      const [width, room] = await page.evaluate(() => [
        document.documentElement.scrollWidth,
        document.documentElement.clientWidth,
      ])
      expect([name, (width ?? 0) <= (room ?? 0)]).toEqual([name, true])
    }
    await close()
  })
})

const TENANT = {
  envelope_only: true,
  created_at: '2026-05-03T00:00:00.000Z',
  monthly_encrypt_quota: null,
  status: 'active',
}
const ALARM = {
  code: 'log_differs',
  reason: 'the log is not the one that was read',
  refused: 'every call of it',
  commands: ['eaas doctor', 'eaas audit verify --installation'],
  page: 'What to do when an alarm is raised',
}
