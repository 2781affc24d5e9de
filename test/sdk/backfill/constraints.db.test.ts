// Constraints that refuse plaintext: what they let pass of what the SDK writes, in each form, and what they refuse.
import { randomUUID } from 'node:crypto'
import { describe, expect, it, vi } from 'vitest'
import { addSealedChecks, makeSealedChecks } from '../../../packages/cli/src/backfill/sealed-checks.js'
import { backfill, constrainTable, inspectTable, postgresTable } from '../../../packages/cli/src/backfill.js'
import { createClient, json, text } from '../../../packages/sdk/src/index.js'
import { connection, database, eaas, keyId, query, useBackfill } from './scene.js'

useBackfill('constraints')

type Value = string | null
const run = (statement: string, parameters: Value[] = []) =>
  query(statement, parameters as string[]) as Promise<Record<string, Value>[]>
const tried = (statement: string, parameters: Value[] = []) =>
  run(statement, parameters).then(
    () => 'stored',
    ({ code, message, constraint_name, constraint }) =>
      code === '23514' ? `refused by ${constraint_name ?? constraint}` : message,
  )

interface Shape {
  type: string
  format: 'text' | 'full' | 'compact' | 'compact-text'
  more?: object
}

/** An empty table, a model, and functions that store a sealed row and add the constraints. */
async function constrained({ type, format, more = {} }: Shape, client = eaas) {
  const name = `people_${randomUUID().slice(0, 8)}`
  await run(
    `create table ${name} (id int primary key, email ${type}, note ${type}, seen int, envelope ${type}, row_seal ${type})`,
  )
  const model = client.model({
    name: 'people',
    keyId,
    bind: ['id'],
    warn: false,
    format,
    fields: { email: text().nullable(), note: json<unknown>().nullable() },
    ...more,
  } as never) as never as ReturnType<typeof anyModel>
  const put = async (row: object) => {
    const sealed = (await model.encrypt(row as never)) as Record<string, unknown>
    const names = Object.keys(sealed)
    const isJson = type.startsWith('json')
    const values = names.map((one) => {
      const value = sealed[one]
      if (value === null) return null
      return typeof value === 'object' || (isJson && one !== 'id') ? JSON.stringify(value) : String(value)
    })
    const places = names.map((one, at) => `$${at + 1}::text::${one === 'id' ? 'int' : type}`)
    return tried(`insert into ${name} (${names.join(', ')}) values (${places.join(', ')})`, values)
  }
  const constrain = () => constrainTable(model, query, name)
  return { name, model, put, constrain }
}
/** A promise, and the function that fulfils it. */
function signalled(): [Promise<void>, () => void] {
  let fulfil: (() => void) | undefined
  const promise = new Promise<void>((resolve) => {
    fulfil = resolve
  })
  return [promise, () => fulfil?.()]
}
const anyModel = () => eaas.model({ name: 'x', keyId, bind: ['id'], fields: { email: text() } })

const TEXTS = ['text', 'varchar(2000)', 'citext']
const JSONS = ['json', 'jsonb']
const shapes: Shape[] = [
  ...[...TEXTS, ...JSONS].flatMap((type) =>
    (['text', 'full', 'compact', 'compact-text'] as const).map((format): Shape => ({ type, format })),
  ),
  ...(['text', 'full', 'compact', 'compact-text'] as const).map(
    (format): Shape => ({ type: format.endsWith('text') ? 'text' : 'jsonb', format, more: { sealed: 'row' } }),
  ),
  { type: 'text', format: 'text', more: { envelope: 1, bind: undefined } },
  { type: 'jsonb', format: 'full', more: { envelope: 1, bind: undefined } },
  { type: 'jsonb', format: 'compact', more: { envelope: 1, bind: undefined } },
]
const long = 'x'.repeat(40_000)

describe.each(shapes)('constraints on a table of %j', (shape) => {
  it('let pass all that the SDK writes, also after a rotation, rewrap and reseal, and refuse plaintext', async () => {
    if (shape.type === 'citext' && database.backend === 'embedded') return // it has no such extension
    if (shape.type === 'citext') await run('create extension if not exists citext')
    const { name, model, put, constrain } = await constrained(shape)
    expect(await put({ id: 1, email: '', note: null })).toBe('stored')
    const { constraints } = await constrain()
    const isSealed = shape.more && 'sealed' in shape.more
    const [email, note] = [`${name}_email_sealed`, `${name}_note_sealed`]
    expect(constraints).toEqual([email, note, ...(isSealed ? [`${name}_row_seal_sealed`] : [])])
    expect(await put({ id: 2, email: null, note: null })).toBe('stored')
    if (shape.type !== 'varchar(2000)') expect(await put({ id: 3, email: long, note: { a: [long] } })).toBe('stored')
    const table = postgresTable(query, name)
    await eaas.keys.rotate(keyId)
    expect(await backfill(model as never, table, { work: 'rewrap' })).toMatchObject({ failed: 0 })
    expect(await backfill(model as never, table, { work: 'reseal' })).toMatchObject({ failed: 0, contended: 0 })
    expect((await inspectTable(model as never, table, { open: true })).found.left).toBe(0)

    const isJson = JSONS.includes(shape.type)
    const cast = (value: string) => (isJson ? JSON.stringify(value) : value)
    const [stored] = await run(`select email::text from ${name} where id = 1`)
    const whole = stored?.email ?? ''
    const plain = [
      ...['ada@example.org', '', 'null', 'eaas.2.', 'eaas.2.ada', `eaas.2.${'ada lovelace '.repeat(20)}`].map(cast),
      ...(isJson ? ['{}', '[]', '7', 'true', '{"email": "ada"}', `[${whole}]`, `{"email": ${whole}}`] : []),
      ...(shape.format.endsWith('text')
        ? ['eaas.3.', 'EAAS.2.', 'xeaas.2.', ' eaas.2.', '{eaas.2.'].map((one) => whole.replace(/eaas[.][\dc][.]/, one))
        : [
            whole.replace('{', '{"name": "Ada", '),
            whole.replace(/"(ciphertext|c)": ?"[^"]{9}/, '"$1": "Ada Lovelace'),
          ]),
      ...(shape.format.endsWith('text')
        ? [cast(`${JSON.parse(isJson ? whole : `"${whole}"`)} ada`)]
        : [`{"a": ${whole}}`]),
    ]
    for (const value of plain) {
      const sql = `update ${name} set email = $1::text::${shape.type} where id = 1`
      expect(await tried(sql, [value]), value).toBe(`refused by ${email}`)
    }
    expect(await tried(`update ${name} set note = $1::text::${shape.type} where id = 2`, [cast('LEAK?')])).toBe(
      `refused by ${note}`,
    )
    if (isJson) expect(await tried(`update ${name} set note = 'null' where id = 2`)).toBe('stored') // no value either
    expect(await tried(`update ${name} set note = null, seen = 1`)).toBe('stored')
  })
})

describe('a backfill', () => {
  it('seals compact rows of text as whole envelopes again, and leaves an own column of the header’s name', async () => {
    const fields = { email: text().nullable(), note: json<unknown>().nullable() }
    const model = eaas.model({ name: 'people', keyId, bind: ['id'], warn: false, format: 'text', fields })
    const reseal = (table: string) => backfill(model, postgresTable(query, table), { work: 'reseal' })
    const compact = await constrained({ type: 'text', format: 'compact-text' })
    expect(await compact.put({ id: 1, email: 'ada@example.org', note: null })).toBe('stored')
    expect(await reseal(compact.name)).toMatchObject({ failed: 0, changed: 1 })
    const [row] = await run(`select * from ${compact.name}`)
    expect(row).toMatchObject({ email: expect.stringMatching(/^eaas[.]2[.]/), envelope: null })
    const own = await constrained({ type: 'text', format: 'text' })
    expect(await own.put({ id: 1, email: 'ada@example.org', note: null })).toBe('stored')
    await run(`update ${own.name} set envelope = 'C5'`)
    expect(await reseal(own.name)).toMatchObject({ failed: 0, changed: 1 })
    expect(await run(`select envelope from ${own.name}`)).toEqual([{ envelope: 'C5' }])
  })
})

describe('constraints', () => {
  it('let pass what is sealed after moves to format v2, to another key and to a secret', async () => {
    const { name, put, constrain } = await constrained({
      type: 'text',
      format: 'text',
      more: { envelope: 1, bind: undefined },
    })
    expect(await put({ id: 1, email: 'ada@example.org', note: null })).toBe('stored')
    await constrain()
    const fields = { email: text().nullable(), note: json<unknown>().nullable() }
    const { id: newKey } = await eaas.keys.create({ name })
    const all = { name: 'people', bind: ['id'], format: 'text', warn: false, fields, acceptUnbound: true } as const
    const table = postgresTable(query, name)
    const withSecret = createClient({
      ...connection,
      secret: new Uint8Array(32).fill(7),
      acceptWithoutSecret: true,
    })
    try {
      const moves = [
        eaas.model({ ...all, keyId }),
        eaas.model({ ...all, keyId: newKey, formerKeyIds: [keyId] }),
        withSecret.model({ ...all, keyId: newKey }),
      ]
      for (const model of moves) {
        expect(await backfill(model, table)).toMatchObject({ changed: 1, failed: 0 })
        await constrainTable(model, query, name)
      }
      const [row] = await run(`select email from ${name}`)
      expect(row?.email).toMatch(/^eaas[.]2s[.]/)
    } finally {
      withSecret.close()
    }
  })

  it('hold for a value inside of an object, whose other members stay free', async () => {
    const name = `people_${randomUUID().slice(0, 8)}`
    await run(`create table ${name} (id int primary key, profile jsonb)`)
    const fields = { 'profile.contact.email': text() }
    const model = eaas.model({ name: 'people', keyId, bind: ['id'], format: 'text', warn: false, fields })
    const { constraints } = await constrainTable(model, query, name)
    expect(constraints).toEqual([`${name}_profile_contact_email_sealed`])
    const sealed = await model.encrypt({ id: 1, profile: { contact: { email: 'ada@example.org' } } })
    const insert = (profile: unknown) =>
      tried(`insert into ${name} values ((select count(*) from ${name}), $1::text::jsonb)`, [JSON.stringify(profile)])
    const { email } = sealed.profile.contact
    for (const free of [
      sealed.profile,
      {},
      null,
      { contact: null },
      { city: 'Paris', contact: { phone: '1', email } },
      { contact: { email: null } },
    ])
      expect(await insert(free), JSON.stringify(free)).toBe('stored')
    const hidden = [
      { contact: { email: 'ada@example.org' } },
      { contact: 'ada@example.org' },
      'ada@example.org',
      [{ contact: { email } }],
      { contact: [email] },
    ]
    for (const one of hidden) expect(await insert(one), JSON.stringify(one)).toBe(`refused by ${constraints}`)
  })

  it('are not added while a row is in plaintext, so that its other columns can be written; a NOT VALID one would refuse that', async () => {
    const { name, model, put, constrain } = await constrained({
      type: 'text',
      format: 'text',
      more: { acceptPlaintext: true },
    })
    await run(`insert into ${name} (id, email) values (1, 'ada@example.org'), (2, 'grace@example.org')`)
    await put({ id: 3, email: 'sealed@example.org', note: null })
    await expect(constrain()).rejects.toMatchObject({
      code: 'E_CONTENT',
      message: `rows hold what these constraints would refuse: ${name}_email_sealed: 2`,
    })
    expect(await tried(`update ${name} set seen = 1`)).toBe('stored')
    expect(await backfill(model as never, postgresTable(query, name))).toMatchObject({ changed: 2, failed: 0 })
    const { statements } = await constrainTable(model as never, query, name, { dryRun: true })
    expect(await tried(`update ${name} set note = 'LEAK?' where id = 1`)).toBe('stored')
    await run(`update ${name} set note = null`)
    for (const statement of statements) await run(statement)
    expect(await tried(`update ${name} set note = 'LEAK?' where id = 1`)).toBe(`refused by ${name}_note_sealed`)
    await constrain() // again
    const [valid] = await run(
      `select bool_and(convalidated)::text as all, count(*)::text from pg_constraint where conrelid = '${name}'::regclass and contype = 'c'`,
    )
    expect(valid).toEqual({ all: 'true', count: '2' })
  })

  it('make open refuse at once, by name and whatever they are called, and let it run after they are dropped', async () => {
    const { name, model, put, constrain } = await constrained({
      type: 'jsonb',
      format: 'compact',
      more: { acceptPlaintext: true },
    })
    await put({ id: 1, email: 'ada@example.org', note: null })
    await constrain()
    await run(`alter table ${name} rename constraint ${name}_email_sealed to "Mine"`)
    const table = postgresTable(query, name)
    const opening = backfill(model as never, table, { work: 'open' })
    const drops = `alter table "${name}" drop constraint "Mine", drop constraint "${name}_note_sealed"`
    await expect(opening).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
      message: 'constraints of the table refuse plaintext',
      hint: `Drop them first: ${drops}`,
    })
    expect(await backfill(model as never, table, { work: 'check' })).toMatchObject({ failed: 0, current: 1 })
    await run(drops)
    expect(await backfill(model as never, table, { work: 'open' })).toMatchObject({ changed: 1 })
    expect((await run(`select email #>> '{}' as email from ${name}`))[0]).toEqual({ email: 'ada@example.org' })
  })

  it('have names that fit PostgreSQL, and quote those of tables and columns', async () => {
    const name = `${'o"rders'.repeat(7)} ${randomUUID().slice(0, 8)}`
    const quoted = `"${name.replaceAll('"', '""')}"`
    await run(`create table ${quoted} (id int primary key, "e'mail$$" text, "e'mail$$2" text)`)
    const model = eaas.model({
      name: 'people',
      keyId,
      bind: ['id'],
      format: 'text',
      warn: false,
      fields: { a: text(), b: text() },
    })
    const columns = { a: "e'mail$$", b: "e'mail$$2" }
    const { constraints } = await constrainTable(model, query, quoted, { columns })
    const stored = await run(
      `select conname as name from pg_constraint where conrelid = $1::text::regclass and contype = 'c'`,
      [quoted],
    )
    expect(stored.map((row) => row.name).sort()).toEqual([...constraints].sort())
    expect(await tried(`insert into ${quoted} (id, "e'mail$$2") values (1, 'ada')`)).toBe(
      `refused by ${constraints[1]}`,
    )
    await expect(constrainTable(model, query, quoted)).rejects.toMatchObject({ message: 'the table has no column "a"' })
    await expect(constrainTable(model, query, quoted, { columns: { c: 'x' } } as never)).rejects.toMatchObject({
      code: 'E_INVALID_INPUT',
    })
  })

  it('wait for a lock without holding others up', async () => {
    if (database.backend !== 'postgres') return
    const { name, constrain, put } = await constrained({ type: 'text', format: 'text' })
    const [held, release] = signalled()
    const [locked, isLocked] = signalled()
    const long = database.sql.begin(async (sql) => {
      await sql.unsafe(`select from ${name}`)
      isLocked()
      await held
    })
    await locked
    const adding = constrain()
    expect(await put({ id: 1, email: 'ada@example.org', note: null })).toBe('stored') // waits 200 ms at most
    release()
    await long
    expect((await adding).constraints).toHaveLength(2)
  })

  it('leave nothing behind where another program writes plaintext meanwhile', async () => {
    if (database.backend !== 'postgres') return
    const { name, constrain } = await constrained({ type: 'text', format: 'text' })
    const [held, release] = signalled()
    const [inserted, isInserted] = signalled()
    const writing = database.sql.begin(async (sql) => {
      await sql.unsafe(`insert into ${name} (id, email) values (1, 'ada@example.org')`)
      isInserted()
      await held
    })
    await inserted
    const adding = constrain().catch((error: unknown) => error)
    // The constraint is added once it gets the lock, which is after the rows were counted.
    const isWaiting = async () =>
      (await run(`select from pg_locks where relation = '${name}'::regclass and not granted`)).length > 0
    await vi.waitUntil(isWaiting, { timeout: 10_000, interval: 20 })
    release()
    await writing
    expect(await adding).toMatchObject({
      message: `rows hold what these constraints would refuse: ${name}_email_sealed: 1`,
    })
    expect(await run(`select from pg_constraint where conrelid = '${name}'::regclass and contype = 'c'`)).toEqual([])
  })

  it('are added by the migration of init to a table without plaintext, and to no other', async () => {
    const migrate = async (name: string) => {
      const sealed = [{ column: 'email', path: [], format: 'text', type: 'text' } as const]
      await run(addSealedChecks(`"${name}"`, makeSealedChecks('postgresql', name, sealed)))
      return (await run(`select from pg_constraint where conrelid = '"${name}"'::regclass and contype = 'c'`)).length
    }
    const shape: Shape = { type: 'text', format: 'text', more: { acceptPlaintext: true } }
    const [empty, sealed, mixed] = [await constrained(shape), await constrained(shape), await constrained(shape)]
    for (const { put } of [sealed, mixed]) await put({ id: 1, email: 'ada@example.org', note: null })
    await run(`insert into ${mixed.name} (id, email) values (2, 'grace@example.org')`)
    expect(await migrate(empty.name)).toBe(1)
    expect(await migrate(sealed.name)).toBe(1)
    const odd = 'odd $$ $eaas1$'
    await run(`create table "${odd}" (email text)`)
    expect(await migrate(odd)).toBe(1)
    expect(await migrate(mixed.name)).toBe(0)
    expect(await tried(`update ${mixed.name} set seen = 1`)).toBe('stored')
    expect(await sealed.put({ id: 2, email: 'grace@example.org', note: null })).toBe('stored')
    expect(await tried(`update ${sealed.name} set email = 'LEAK?'`)).toBe(`refused by ${sealed.name}_email_sealed`)
  })
})
