// The plan of a backfill: the SQL for indexes of each kind, and that they are filled while the rows are in plaintext.
import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { type Plan, planWith } from '../../../packages/cli/src/backfill/plan.js'
import {
  backfill,
  constrainTable,
  inspectTable,
  postgresTable,
  type Table,
} from '../../../packages/cli/src/backfill.js'

import { date, text } from '../../../packages/sdk/src/index.js'
import * as maintenance from '../../../packages/sdk/src/maintenance.js'
import { database, eaas, keyId, query, useBackfill } from './scene.js'

useBackfill('plan')

const run = (statement: string) => query(statement, []) as Promise<Record<string, string>[]>
const runAll = async (statements: readonly string[]) => {
  // The embedded database runs each statement in a transaction.
  for (const one of statements) await run(database.backend === 'embedded' ? one.replace(' concurrently', '') : one)
}

const modelOf = (more: object = {}) =>
  eaas.model({
    ...{ name: 'people', keyId, bind: ['id'], format: 'text', warn: false, acceptPlaintext: true, acceptUnbound: true },
    fields: {
      email: text({ index: 'email_index' }),
      mail: text({ index: 'mailIndex', normalize: ['lowercase'] }).nullable(),
      name: text(),
      born: date({ index: 'born_year', range: 'year' }).nullable(),
    },
    indexes: {
      both_index: { fields: ['email', 'name'] },
      name_start: { prefix: 'name', length: 3 },
      name_parts: { ngram: 'name', length: 3, bits: 6, acceptLeakage: true },
    },
    ...more,
  } as never) as never as ReturnType<typeof anyModel>
const anyModel = () => eaas.model({ name: 'x', keyId, bind: ['id'], fields: { email: text() } })

const columns = { mailIndex: 'mail_index' }
const INDEXES = ['email_index', 'mail_index', 'born_year', 'both_index', 'name_start', 'name_parts']

/** A table with unique constraints on one column, on a column beside another, and on the small letters of one. */
async function createTable(type = 'text') {
  const name = `people_${randomUUID().slice(0, 8)}`
  await run(
    `create table ${name} (id int primary key, tenant int not null, email ${type} not null unique, mail text, name text not null, born text, unique (tenant, email))`,
  )
  await run(`create unique index "${name} mail" on ${name} (lower(mail))`)
  await run(
    `insert into ${name} select n, 1, 'a' || n, 'Ada' || n || '@x.org', 'Ada ' || n, '1990-01-0' || n from generate_series(1, 3) n`,
  )
  const planFor = (model = modelOf()) =>
    planWith(
      maintenance,
      model,
      { query, table: name },
      {
        columns,
        command: (more) => more,
        inspect: () => inspectTable(model, postgresTable(query, name, { columns })),
      },
    )
  const work = (what: 'index' | 'seal', model = modelOf()) =>
    backfill(model, postgresTable(query, name, { columns }), { work: what })
  const read = (what: string[]) => run(`select ${what.join(', ')} from ${name} order by id`)
  return { name, planFor, work, read }
}

async function openTable(name: string): Promise<Table> {
  const source = postgresTable(query, name, { columns })
  return typeof source === 'function' ? source(maintenance.describeModel(modelOf()).table) : source
}

describe('the plan of a backfill', () => {
  it('has the SQL for indexes of each kind, unique where the plaintext was', async () => {
    const { name, planFor } = await createTable('varchar(40)')
    const { left, steps } = await planFor()
    expect(left).toBeUndefined() // no row can be read before the columns are there
    expect(steps[0]).toMatchObject({
      done: false,
      run: [
        '-- the column "email" holds at most 40 characters, which no encrypted value fits',
        `alter table "${name}" alter column "email" type text;`,
        ...INDEXES.map(
          (one) => `alter table "${name}" add column "${one}" ${one === 'name_parts' ? 'text[]' : 'text'};`,
        ),
        `create unique index concurrently on "${name}" ("email_index");`,
        `create unique index concurrently on "${name}" ("tenant", "email_index");`,
        `create unique index concurrently on "${name}" ("mail_index");`,
        ...['born_year', 'both_index', 'name_start'].map((one) => `create index concurrently on "${name}" ("${one}");`),
        `create index concurrently on "${name}" using gin ("name_parts");`,
      ],
    })
    expect(steps.at(-1)?.run).toEqual([
      `alter table "${name}" drop constraint "${name}_email_key";`,
      `alter table "${name}" drop constraint "${name}_tenant_email_key";`,
      `drop index concurrently "${name} mail";`,
    ])
    await run(
      `alter table ${name} alter column email type text, alter column born type timestamp using born::timestamp`,
    )
    const [ended, fill] = (await planFor()).steps
    expect(ended?.step).toMatch(/^end the application if its code uses born as anything but text, .*; add /)
    expect(fill?.step).not.toContain('runs as it is')
    expect(ended?.run.slice(0, 2)).toEqual([
      expect.stringMatching(/^-- the column "born" is of type timestamp .*; this is if its times are UTC$/),
      expect.stringMatching(/ alter column "born" type text using to_json\(date_trunc.*;$/),
    ])
    await run(ended?.run[1] ?? '')
    expect((await planFor()).steps[0]?.step).toMatch(/^add /)
    await run(`alter table ${name} alter column born type text using born::date::text`)
    await runAll((await planFor()).steps[0]?.run ?? [])
    const again = await planFor()
    expect(again.left).toBe('3 rows, 12 values to seal, 18 indexes to fill')
    expect(again.steps.map(({ done }) => done)).toEqual([true, false, null, null, false, null, false])
  })

  it('drops, before anything seals, the indexes that no sealed value of a long text fits', async () => {
    const { name, planFor, work } = await createTable()
    await run(`create index "${name} names" on ${name} (name)`)
    await run(
      `update ${name} set name = (select string_agg(md5(n::text), '') from generate_series(1, 60) n) where id = 2`,
    )
    await runAll((await planFor()).steps[0]?.run ?? [])
    const failed = await work('seal')
    expect(failed).toMatchObject({ changed: 2, failed: 1 })
    expect(failed.failures[0]?.message).toMatch(/ names".*drop the index "people_.* names"/)
    const { steps } = await planFor()
    const at = steps.findIndex(({ step }) => step.includes('long texts'))
    expect(steps[at]?.run).toEqual([`drop index concurrently "${name} names";`])
    expect(steps[at + 1]?.step).toContain('deploy the application')
    expect(steps.at(-1)?.run).toHaveLength(3)
    await runAll(steps[at]?.run ?? [])
    expect(await work('seal')).toMatchObject({ changed: 1, failed: 0 })
  })

  it('fills indexes of each kind while the rows are in plaintext, with what sealed rows have', async () => {
    const { name, planFor, work, read } = await createTable()
    await runAll((await planFor()).steps[0]?.run ?? [])
    const plain = await read(['id', 'email', 'mail', 'name', 'born'])
    expect(await work('index')).toMatchObject({ changed: 3, failed: 0 })
    expect(await read(['id', 'email', 'mail', 'name', 'born'])).toEqual(plain)
    const indexes = await read(INDEXES)
    expect(indexes.flatMap((row) => Object.values(row))).not.toContain(null)
    expect((await planFor()).steps[1]).toMatchObject({ done: true })
    expect(await work('seal')).toMatchObject({ changed: 3, failed: 0 })
    expect(await read(INDEXES)).toEqual(indexes)
    // The index of a null is null too: row 1 lacks none, and row 3 that of parts.
    await run(`update ${name} set mail = null, mail_index = null where id = 1`)
    await run(`update ${name} set name_parts = null where id = 3`)
    const { lacking } = await openTable(name)
    expect(await lacking?.count(undefined)).toBe(1)
    expect((await lacking?.page(undefined, 9))?.map(({ key }) => key)).toEqual(['["3"]'])
    expect(await lacking?.count('["3"]')).toBe(0)
  })

  it('asks for no acceptPlaintext where an encrypted table gets one more index', async () => {
    const { name, planFor, work } = await createTable()
    const deployOf = ({ steps }: Plan) => steps.find(({ step }) => step.includes('deploy the application'))?.step
    const again = async () => (await planFor()).steps.find(({ step }) => step.startsWith('at once'))?.done
    await runAll((await planFor()).steps[0]?.run ?? [])
    expect(deployOf(await planFor())).toContain('with the model and its acceptPlaintext: true,')
    await work('seal')
    expect(await again()).toBe(true)
    await run(`update ${name} set mail_index = null`)
    expect(deployOf(await planFor())).toMatch(/with the model, and end all processes of the version before$/)
    expect(await again()).toBeNull()
    await constrainTable(modelOf(), query, name, { columns })
    await run(`alter table ${name} drop column mail_index`)
    expect(deployOf(await planFor())).toMatch(/with the model, and end/)
  })

  it('names the option for a column that the table has in another spelling', async () => {
    const { name, planFor } = await createTable()
    await run(`alter table ${name} add column "emailIndex" text`)
    const [step] = (await planFor()).steps
    expect(step?.run[0]).toBe(
      '-- the table has the column "emailIndex": if it is email_index, add --column email_index=emailIndex to each command, and leave out what this would add',
    )
    expect(step?.run.filter((line) => line.includes('--column'))).toHaveLength(1)
  })

  it('does not seal rows whose model seals them whole', async () => {
    const { name, planFor, work, read } = await createTable()
    const whole = modelOf({ sealed: 'row' })
    const [columnsStep] = (await planFor(whole)).steps
    expect(columnsStep?.run).toContainEqual(expect.stringContaining('add column "row_seal" text;'))
    await runAll(columnsStep?.run ?? [])
    const plain = await read(['email', 'mail', 'name', 'born', 'row_seal'])
    expect(await work('index', whole)).toMatchObject({ changed: 3, failed: 0 })
    expect(await read(['email', 'mail', 'name', 'born', 'row_seal'])).toEqual(plain)
    expect(await work('seal', whole)).toMatchObject({ changed: 3, failed: 0 })
    const table = postgresTable(query, name, { columns })
    expect((await inspectTable(modelOf({ sealed: 'row' }), table, { open: true })).found.left).toBe(0)
  })

  it('names a row whose index another row has, which is to be corrected before the deployment', async () => {
    const { name, planFor, work } = await createTable()
    await run(`drop index "${name} mail"`)
    await run(`create unique index on ${name} (mail)`)
    await run(`update ${name} set mail = 'ADA1@x.org' where id = 2`)
    await runAll((await planFor()).steps[0]?.run ?? [])
    const { changed, failures } = await work('index')
    expect({ changed, keys: failures.map(({ key }) => key) }).toEqual({ changed: 2, keys: ['["2"]'] })
    expect(failures[0]?.message).toMatch(
      /"people_.*_mail_index_idx".* SQLSTATE 23505. The row \["1"\] has the same in "mail_index", /,
    )
    expect((await planFor()).steps[1]).toMatchObject({ done: false })
    await run(`update ${name} set mail = 'ben@x.org' where id = 2`)
    expect(await work('index')).toMatchObject({ changed: 1, failed: 0 })
    expect((await planFor()).steps[1]).toMatchObject({ done: true })
  })

  it('seals with its own index a row that changed after its index was filled', async () => {
    const { name, planFor, work, read } = await createTable()
    await runAll((await planFor()).steps[0]?.run ?? [])
    await work('index')
    const [before] = await read(['email_index'])
    await run(`update ${name} set email = 'changed' where id = 1`)
    expect(await work('seal')).toMatchObject({ changed: 3, failed: 0 })
    expect((await read(['email_index']))[0]).not.toEqual(before)
    const { found } = await inspectTable(modelOf(), postgresTable(query, name, { columns }), { open: true })
    expect(found.left).toBe(0)
  })
})
