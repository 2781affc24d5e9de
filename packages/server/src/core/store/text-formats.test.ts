import { describe, expect, it } from 'vitest'
import type { Queryable } from './db.js'
import { assertFormats, findWrongFormats } from './text-formats.js'

/** A session in which one setting is another one; PostgreSQL says where its value comes from. */
function session(source: string): Queryable {
  const answers = [
    [
      { name: 'bytea_output', value: 'escape' },
      { name: 'TimeZone', value: 'Europe/Berlin' },
    ],
    [{ name: 'bytea_output', source, database: '"my db"', role: 'eaas' }],
  ]
  return (async () => answers.shift()) as unknown as Queryable
}

describe('a setting of another form of text', () => {
  it.each([
    ['database', 'Reset it: alter database "my db" reset bytea_output'],
    ['user', 'Reset it: alter role eaas reset bytea_output'],
    ['database user', 'Reset it: alter role eaas in database "my db" reset bytea_output'],
    ['global', 'Reset it: alter role all reset bytea_output'],
    ['client', expect.stringMatching(/^A client set bytea_output in this session/)],
    ['session', expect.stringMatching(/^A client set bytea_output in this session/)],
    ['configuration file', `The cluster's configuration says so: alter database "my db" set bytea_output = 'hex'`],
  ])('is named with the statement that undoes it where it was made: %s', async (source, remedy) => {
    expect(await findWrongFormats(session(source))).toEqual([{ name: 'bytea_output', value: 'escape', remedy }])
    await expect(assertFormats(session(source))).rejects.toThrow(
      typeof remedy === 'string' ? remedy : 'restart what holds the session',
    )
  })
})
