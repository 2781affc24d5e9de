// Migrations have time limits of their own: those of calls would abort them, and a start that waits for another process's migration.
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { MIGRATIONS_DIRECTORY } from '../../packages/server/src/migrations-directory.js'
import { connect, type Sql } from '../../packages/server/src/store/db.js'
import { migrate } from '../../packages/server/src/store/migrations.js'
import { backend, freshDatabase } from '../support/database.js'

/** Statements of calls end after 5 s, and wait for a lock for 4 s. */
const LONGER_S = 6

// The embedded database serves a single process and has no such limits.
describe.skipIf(backend() === 'embedded')('migrations', { timeout: 60_000 }, () => {
  let one: Sql
  let other: Sql
  let folder: string

  beforeAll(async () => {
    const database = await freshDatabase('migrations')
    if (database.backend !== 'postgres') throw new Error('this needs PostgreSQL')
    one = connect({ url: database.directUrl, max: 1 })
    other = connect({ url: database.directUrl, max: 1 })
    folder = await mkdtemp(join(tmpdir(), 'eaas-migrations-'))
    await migrate(one, MIGRATIONS_DIRECTORY)
  })
  afterAll(async () => {
    await one?.end()
    await other?.end()
    await rm(folder, { recursive: true, force: true })
  })

  it('wait for another process that is at it', async () => {
    const migrating = one.begin(async (transaction) => {
      await transaction`select version from schema_version where id = 1 for update`
      for (let second = 0; second < LONGER_S; second++) {
        await transaction`select 1`
        await sleep(1_000)
      }
    })
    await sleep(100)
    expect(await migrate(other, MIGRATIONS_DIRECTORY)).toEqual([])
    await migrating
  })

  it('take the time that they need, and leave the limits of calls as they are', async () => {
    await writeFile(join(folder, '999-slow.sql'), `select pg_sleep(${LONGER_S})`)
    expect(await migrate(one, pathToFileURL(`${folder}/`))).toEqual([999])
    expect(
      await one`select current_setting('statement_timeout') as statement, current_setting('lock_timeout') as lock`,
    ).toEqual([{ statement: '5s', lock: '4s' }])
  })
})
