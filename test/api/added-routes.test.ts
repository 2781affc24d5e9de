// Routes that a program adds to the application of `buildServer`, in which it may mount its own.
import type { FastifyInstance } from 'fastify'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildApp } from '../../packages/server/src/app.js'
import { readConfig } from '../../packages/server/src/core/config.js'
import { buildServer } from '../../packages/server/src/index.js'
import { freshDatabase } from '../support/database/database.js'
import { ROOT_KEY, type Service, startService } from '../support/service/service.js'

const SCHEMA = {
  querystring: { type: 'object', required: ['name'], properties: { name: { type: 'string' } } },
  response: { 200: { type: 'object', properties: { name: { type: 'string' } } } },
}

function addRoute(app: FastifyInstance): void {
  app.get('/greet', { schema: SCHEMA }, async ({ query }) => ({ ...(query as object), left: 'out' }))
}

describe('a route with a schema', () => {
  let service: Service
  beforeAll(async () => {
    service = await startService()
  })
  afterAll(() => service.close())

  it('is checked and serialized by Fastify in what `buildServer` returns', async () => {
    const database = await freshDatabase('added', { migrated: true })
    const place =
      database.backend === 'postgres' ? { EAAS_DATABASE_URL: database.url } : { EAAS_DATA_DIR: database.dataDir }
    const config = readConfig({ EAAS_ROOT_KEY: ROOT_KEY, EAAS_LOG_LEVEL: 'silent', ...place })
    const app = await buildServer({ config })
    addRoute(app)
    expect((await app.inject('/greet?name=ada')).json()).toEqual({ name: 'ada' })
    expect((await app.inject('/greet')).statusCode).toBeGreaterThanOrEqual(400)
    expect((await app.inject('/health')).statusCode).toBe(200)
    await app.close()
  })

  it('is refused where the command serves, which has no compilers of schemas', async () => {
    const app = buildApp({ services: service.services, findDurability: async () => 'synchronous', logger: false })
    addRoute(app)
    await expect(app.ready()).rejects.toThrow('cannot have a schema')
    await app.close()
  })
})
