// The form of API keys in Chromium: what it shows of an API key, keeps after a refusal, and sends.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Caller, type Service, startService } from '../support/service/service.js'
import { findBarriers } from './barriers.js'
import { delayAnswer, inChromium, signIn, weakContrasts } from './chromium-pages.js'

const START_TIMEOUT_MS = 120_000

inChromium("the console's form of API keys", ({ open }) => {
  let service: Service
  let owner: Caller

  beforeAll(async () => {
    service = await startService({ environment: { EAAS_CONSOLE: 'on' } })
    owner = await service.createTenant({ name: 'acme' })
  }, START_TIMEOUT_MS)
  afterAll(() => service?.close())

  const openApiKeys = async () => {
    const { page, close } = await open(`${service.url}/console#/api-keys`)
    await signIn({ page }, owner.secret)
    await page.getByRole('button', { name: 'New API key' }).waitFor()
    const change = async (name: string) => {
      await page.getByRole('button', { name, exact: true }).click()
      await page.getByRole('button', { name: 'Narrow or change' }).click()
    }
    const save = async () => {
      await page.getByRole('button', { name: 'Save' }).click()
      await page.getByRole('button', { name: 'Narrow or change' }).waitFor()
    }
    return { page, change, save, close }
  }
  const create = async (fields: object) => (await owner.call('POST', '/v1/api-keys', fields)).body
  const find = async (name: string) => {
    const { api_keys } = (await owner.call('GET', '/v1/api-keys')).body
    return api_keys.find((apiKey: { name: string }) => apiKey.name === name)
  }

  it('keeps what was typed when the server refuses it, and makes the API key with these limits', async () => {
    const { page, close } = await openApiKeys()
    await page.getByRole('button', { name: 'New API key' }).click()
    expect([await findBarriers(page), await weakContrasts(page)]).toEqual([[], []])
    await page.getByLabel('Name', { exact: true }).fill('import')
    await page.locator('[value="unwrap"]').check()
    await page.getByLabel('From addresses').fill('10.0.0.300')
    await page.getByLabel('Expires').first().fill('2999-01-31')
    await page.getByLabel('opened a day').fill('100')
    await page.getByLabel('expires when it exceeds one').check()
    await page.getByRole('button', { name: 'Create' }).click()
    await page.getByRole('alert').waitFor()
    expect(await page.getByLabel('Name', { exact: true }).inputValue()).toBe('import')
    expect(await page.getByLabel('From addresses').inputValue()).toBe('10.0.0.300')
    await page.getByLabel('From addresses').fill('10.0.0.3')
    await page.getByRole('button', { name: 'Create' }).click()
    await page.locator('output').waitFor()
    expect(await find('import')).toMatchObject({
      permissions: ['unwrap'],
      allowed_ips: ['10.0.0.3'],
      expires_at: '2999-01-31T23:59:59.999Z',
      budgets: { unwrap: { per_day: 100 }, when_over: 'expire' },
    })
    await close()
  })

  it('tells an API key that may use no key from one that may use all, and keeps it so', async () => {
    await create({ name: 'no key', permissions: ['unwrap'], keys: [] })
    const { page, change, save, close } = await openApiKeys()
    expect(await page.locator('tr', { hasText: 'no key' }).locator('td').nth(3).innerText()).toBe('none')
    await change('no key')
    await page.getByLabel('Name', { exact: true }).fill('still no key')
    await save()
    expect((await find('still no key')).keys).toEqual([])
    expect(await page.locator('dl.facts').innerText()).toMatch(/On keys\s+none/)
    await close()
  })

  it('limits an API key to no key where it names none, and to all only by a choice of its own', async () => {
    await create({ name: 'limited', permissions: ['unwrap'], keys: ['customers/*'] })
    const { page, change, save, close } = await openApiKeys()
    await change('limited')
    await page.getByLabel('Names, ids, or folders').fill('')
    await save()
    expect((await find('limited')).keys).toEqual([])
    await page.getByRole('button', { name: 'Narrow or change' }).click()
    await page.getByLabel('Only on these keys').uncheck()
    expect(await page.getByLabel('Names, ids, or folders').isDisabled()).toBe(true)
    await save()
    expect(await find('limited')).not.toHaveProperty('keys')
    await close()
  })

  it('sends only what was changed, and so takes back nothing that somebody else changed meanwhile', async () => {
    const { id } = await create({
      name: 'shared',
      permissions: ['wrap', 'unwrap', 'hash'],
      expires_at: '2999-01-31T00:00:00.123Z',
      budgets: { unwrap: { per_day: 7 } },
    })
    const { page, change, save, close } = await openApiKeys()
    await change('shared')
    const narrower = { permissions: ['wrap'], keys: ['customers/*'], allowed_ips: ['10.0.0.3'], budgets: null }
    await owner.call('PATCH', `/v1/api-keys/${id}`, narrower)
    await page.getByLabel('Name', { exact: true }).fill('renamed')
    const sent = page.waitForRequest((request) => request.method() === 'PATCH')
    await save()
    expect((await sent).postDataJSON()).toEqual({ name: 'renamed' })
    expect(await find('renamed')).toMatchObject({
      permissions: ['wrap'],
      keys: ['customers/*'],
      allowed_ips: ['10.0.0.3'],
    })
    await page.getByRole('button', { name: 'Narrow or change' }).click()
    await page.getByLabel('Expires').first().fill('')
    await save()
    expect(await find('renamed')).not.toHaveProperty('expires_at')
    await close()
  })

  it('compares with what it showed at first, also where the list was read again meanwhile', async () => {
    const { id } = await create({ name: 'read again', permissions: ['wrap', 'unwrap'] })
    const { page, change, save, close } = await openApiKeys()
    await owner.call('PATCH', `/v1/api-keys/${id}`, { permissions: ['wrap'] })
    await page.getByRole('link', { name: 'Health' }).click()
    const { answer } = await delayAnswer(page, '**/v1/api-keys')
    await page.getByRole('link', { name: 'API keys' }).click()
    await change('read again')
    await answer()
    await page.locator('tr', { hasText: 'read again' }).getByRole('cell', { name: 'wrap', exact: true }).waitFor()
    await page.getByLabel('From addresses').fill('10.0.0.3')
    const sent = page.waitForRequest((request) => request.method() === 'PATCH')
    await save()
    expect((await sent).postDataJSON()).toEqual({ allowed_ips: ['10.0.0.3'] })
    await close()
  })

  it('grants only the key that was added, whatever the names and folders that were listed before look like', async () => {
    const [folder, added] = ['team/*,prod/*', 'added']
    const key = await owner.call('POST', '/v1/keys', { name: folder })
    const other = await owner.call('POST', '/v1/keys', { name: added })
    await create({ name: 'listed', permissions: ['unwrap'], keys: [key.body.id, folder] })
    const { page, change, save, close } = await openApiKeys()
    await change('listed')
    const field = page.getByLabel('Names, ids, or folders')
    expect(await field.inputValue()).toBe(`${key.body.id}\n"${folder}"`)
    await field.fill(`${await field.inputValue()}\n${added}`)
    await save()
    expect((await find('listed')).keys.toSorted()).toEqual([key.body.id, folder, other.body.id].toSorted())
    await close()
  })
})
