// The snippets of the pages for users, on a real server.
import { afterAll, beforeAll, describe, it } from 'vitest'
import { type GuardedDir, guardedDir } from '../support/run/guarded-dir.js'
import { type Service, startService } from '../support/service/service.js'
import { ON_DATABASES, PAGES, readPage } from '../support/sources/snippets.js'
import { runPage } from './run-page.js'

let service: Service
let dir: GuardedDir
beforeAll(async () => {
  service = await startService()
  dir = guardedDir('eaas-test-pages')
})
afterAll(async () => {
  await service.close()
  await dir.remove()
})

describe.each(PAGES.filter((page) => !ON_DATABASES.includes(page)))('%s', (page) => {
  it('has TypeScript that runs', async () => {
    const { secret } = await service.createTenant({ envelope_only: false })
    await runPage(readPage(page), { baseUrl: service.url, apiKey: secret, fetch }, dir.path)
  })
})
