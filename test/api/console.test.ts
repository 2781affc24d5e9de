// Whether the server has the pages of the console, which need no API key.
import { expect, it } from 'vitest'
import { readConfig } from '../../packages/server/src/core/config.js'
import { buildServer } from '../../packages/server/src/index.js'
import { freshDatabase } from '../support/database/database.js'
import { ROOT_KEY } from '../support/service/service.js'

it.each([
  [undefined, 200],
  ['on', 200],
  ['off', 404],
])('EAAS_CONSOLE=%s: the pages answer %s', async (EAAS_CONSOLE, status) => {
  const database = await freshDatabase('console', { migrated: true })
  const place =
    database.backend === 'postgres' ? { EAAS_DATABASE_URL: database.url } : { EAAS_DATA_DIR: database.dataDir }
  const config = readConfig({ EAAS_ROOT_KEY: ROOT_KEY, EAAS_LOG_LEVEL: 'silent', EAAS_CONSOLE, ...place })
  const app = await buildServer({ config })
  for (const url of ['/console', '/console/', '/console/verify'])
    expect((await app.inject(url)).statusCode).toBe(status)
  expect((await app.inject('/console/unknown')).statusCode).toBe(404)
  expect((await app.inject('/v1/keys')).statusCode).toBe(401)
  await app.close()
})
