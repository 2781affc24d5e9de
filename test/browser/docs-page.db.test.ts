// The page of the API (/docs) as its readers use it, in Chromium.
import { afterAll, beforeAll, expect, it } from 'vitest'
import { type Service, startService } from '../support/service/service.js'
import { inChromium, NOTHING_STORED, stored, weakContrasts } from './chromium-pages.js'

const START_TIMEOUT_MS = 120_000

inChromium('the page of the API', ({ open }) => {
  let service: Service

  beforeAll(async () => {
    service = await startService()
  }, START_TIMEOUT_MS)
  afterAll(() => service?.close())

  it('works offline, in the dark and on a phone, with real examples and calls that can be tried', async () => {
    const options = { colorScheme: 'dark' as const, viewport: { width: 375, height: 800 } }
    const { page, requests, complaints, violations, close } = await open(`${service.url}/docs`, options)
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
    await page.locator('.auth-container input').fill((await service.createTenant()).secret)
    await page.locator('.auth-container').getByRole('button', { name: 'Apply credentials' }).click()
    await page.locator('.auth-container').getByRole('button', { name: 'Close' }).click()
    const tenant = await call('/v1/tenant')
    await tenant.getByRole('button', { name: 'Try it out' }).click()
    await tenant.getByRole('button', { name: 'Execute' }).click()
    await tenant.locator('.live-responses-table').getByText('"tenant_id"').waitFor()

    expect(
      requests.filter((request) => !/^data:/.test(request.url()) && !request.url().startsWith(service.url)),
    ).toEqual([])
    expect(await violations()).toEqual([])
    expect(complaints).toEqual([])
    expect(await stored(page)).toEqual(NOTHING_STORED)
    await close()
  })
})
