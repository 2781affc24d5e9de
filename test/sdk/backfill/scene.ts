// What the tests of a backfill share: the database of an application, and a client of a real server with a key.
import { afterAll, beforeAll } from 'vitest'
import type { PostgresQuery } from '../../../packages/cli/src/backfill.js'
import { type Client, createClient } from '../../../packages/sdk/src/index.js'
import { type ApplicationDatabase, openApplicationDatabase } from '../../support/database/application-database.js'
import { type Service, startService } from '../../support/service/service.js'

export let database: ApplicationDatabase
/** Runs SQL in that database. */
export let query: PostgresQuery
/** Where the server is, for clients in other processes. */
export let connection: { baseUrl: string; apiKey: string }
export let eaas: Client
export let keyId: string

/** Starts all of it for the tests of a file. */
export function useBackfill(name: string): void {
  let service: Service
  beforeAll(async () => {
    ;[database, service] = await Promise.all([openApplicationDatabase(name), startService()])
    query = database.query
    const { secret } = await service.createTenant()
    connection = { baseUrl: service.url, apiKey: secret }
    eaas = createClient(connection)
    keyId = (await eaas.keys.create({ name: 'people' })).id
  })
  afterAll(async () => {
    eaas?.close()
    await service?.close()
    await database?.close()
  })
}
