// The programs of the SDK's servers.md that need no package besides those of this checkout. The others are in test/slow/page-apps.test.ts.
import { join } from 'node:path'
import { afterAll, beforeAll, describe, it } from 'vitest'
import { backend, isPooled } from '../support/database/database.js'
import { linkPackages, readPageApp, startApp, writeApp } from '../support/platforms/page-app.js'
import { expectCustomers } from '../support/platforms/served-customers.js'
import { type GuardedDir, guardedDir } from '../support/run/guarded-dir.js'

let dir: GuardedDir
beforeAll(() => {
  dir = guardedDir('eaas-test-servers')
})
afterAll(() => dir.remove())

describe.runIf(backend() === 'postgres' && !isPooled())('packages/sdk/docs/servers.md', () => {
  it.each(['Fastify', 'Hono'])('%s: stores only sealed values, and finds a customer', async (heading) => {
    const app = readPageApp('packages/sdk/docs/servers.md', heading)
    const folder = join(dir.path, heading)
    writeApp(app, folder)
    linkPackages(folder)
    const running = await startApp(app, folder)
    try {
      await expectCustomers(running)
    } finally {
      await running.stop()
    }
  })
})
