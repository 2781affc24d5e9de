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

  it('works offline, in the dark and on a phone, and has each call with its examples', async () => {
    const options = { colorScheme: 'dark' as const, viewport: { width: 375, height: 800 } }
    const { page, requests, complaints, violations, close } = await open(`${service.url}/docs`, options)
    const text = await page.locator('body').innerText()
    for (const path of ['/v1/keys/{id}/wrap', '/v1/tenant', '/health']) expect(text).toContain(path)
    expect(await page.evaluate(() => document.documentElement.scrollWidth)).toBe(options.viewport.width)
    expect(await weakContrasts(page, 'body *')).toEqual([])
    expect(requests.map((request) => request.url())).toEqual([`${service.url}/docs`])
    expect(await violations()).toEqual([])
    expect(complaints).toEqual([])
    expect(await stored(page)).toEqual(NOTHING_STORED)
    await close()
  })
})
