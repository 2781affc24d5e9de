// The constraints for SQLite, run by its command where that is found; those for PostgreSQL are in test/sdk/backfill.
import { spawnSync } from 'node:child_process'
import { json, text } from '@eaas/sdk'
import { expect, it } from 'vitest'
import { failure, keyId, useClients } from '../../../sdk/src/test-support/clients.js'
import { sealedChecks } from '../backfill.js'

const { connect } = useClients()
const dialect = 'sqlite'
const hasSqlite = spawnSync('sqlite3', ['--version']).status === 0
const run = (script: string) => spawnSync('sqlite3', [':memory:'], { input: script, encoding: 'utf8' }).stdout
const cases = (['text', 'full', 'compact', 'compact-text'] as const).flatMap((format) =>
  (['text', 'json'] as const).map((type) => ({ format, type })),
)

it.runIf(hasSqlite).each(cases)(
  'in SQLite, those of format $format in $type let pass what the SDK writes, and refuse plaintext',
  async ({ format, type }) => {
    const eaas = connect()
    const fields = { email: text().nullable(), 'profile.note': json<unknown>().nullable() }
    const model = eaas.model({ name: 'people', keyId, bind: ['id'], sealed: 'row', format, warn: false, fields })
    const types = { email: type, row_seal: type, profile: 'json' } as const
    const checks = sealedChecks(model, { dialect, table: 'people', types })
    expect(checks.map(({ name }) => name)).toEqual([
      'people_email_sealed',
      'people_profile_note_sealed',
      'people_row_seal_sealed',
    ])
    const row = { id: 1, email: 'ada@example.org', profile: { note: { a: 'x'.repeat(9_000) } } }
    const sealed = (await model.encrypt(row)) as unknown as Record<string, unknown>
    const stored = (value: unknown) =>
      type === 'json' || typeof value === 'object' ? JSON.stringify(value) : String(value)
    const email = stored(sealed.email)
    const good = [email, ...(type === 'json' ? ['null'] : [])]
    const bad = [
      ...['ada@example.org', '', 'null', 'eaas.2.', `eaas.2.${'ada lovelace '.repeat(20)}`].map((one) =>
        type === 'json' ? JSON.stringify(one) : one,
      ),
      ...(type === 'json' ? ['{}', '[]', '7', 'true', '{"email": "ada"}', `[${email}]`] : []),
      ...['eaas.3.', 'EAAS.2.', 'xeaas.2.', ' eaas.2.']
        .map((one) => email.replace(/eaas[.][\dc][.]/, one))
        .filter((one) => one !== email),
      ...(format.endsWith('text')
        ? []
        : [
            email.replace('{', '{"name": "Ada", '),
            email.replace(/"(ciphertext|c)": ?"[^"]{9}/, '"$1": "Ada Lovelace'),
          ]),
    ]
    const { note } = sealed.profile as { note: unknown }
    const goodProfiles = [sealed.profile, {}, null, { city: 'Paris', note }, { note: null }]
    const badProfiles = [{ note: 'ada' }, 'ada', ['ada'], { note: [note] }, { note: { a: note } }]
    const literal = (one: unknown) => (one === null ? 'null' : `'${String(one).replaceAll("'", "''")}'`)
    const rows = (base: number, values: unknown[], column: string) =>
      values.map(
        (value, at) => `insert or ignore into people (id, ${column}) values (${base + at}, ${literal(value)});`,
      )
    const script = [
      `create table people (id int primary key, email text, profile text, row_seal text, ${checks.map(({ definition }) => definition).join(', ')});`,
      ...rows(1, [null, ...good], 'email'),
      ...rows(100, bad, 'email'),
      ...rows(
        200,
        goodProfiles.map((one) => JSON.stringify(one)),
        'profile',
      ),
      ...rows(
        300,
        badProfiles.map((one) => JSON.stringify(one)),
        'profile',
      ),
      ...rows(400, [stored(sealed.row_seal)], 'row_seal'),
      ...rows(500, [type === 'json' ? '"sealed"' : 'sealed'], 'row_seal'),
      'select id from people order by id;',
    ]
    const expected = [...[null, ...good].map((_, at) => 1 + at), ...goodProfiles.map((_, at) => 200 + at), 400]
    expect(run(script.join('\n')).trim().split('\n').map(Number)).toEqual(expected)
  },
)

it('refuses a dialect, a column and a type that there is not', async () => {
  const model = connect().model({ name: 'people', keyId, bind: ['id'], fields: { email: text() } })
  const check = async (more: object) => sealedChecks(model, { dialect, table: 'people', ...more })
  for (const more of [
    { dialect: 'oracle' },
    { columns: { emial: 'x' } },
    { types: { id: 'text' } },
    { types: { email: 'blob' } },
    { table: '' },
  ])
    expect(await failure(check(more)), JSON.stringify(more)).toMatchObject({ code: 'E_INVALID_INPUT' })
})
