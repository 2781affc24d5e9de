import { describe, expect, it } from 'vitest'
import { assertSqlOrder, assertSqlPart } from './sql-parts.js'

const email = { name: 'email', model: 'users', field: 'email' }
const mail = { ...email, name: 'mail' }
/** As in `(select … from posts, (select email as mail …) as q) …` within a query of users as u, and contacts. */
const relations = [
  { alias: 'posts', sealed: [] },
  { alias: 'q', sealed: [mail] },
  { alias: 'U', sealed: [email] },
  { alias: 'contacts', sealed: [] },
]

describe('the text of a part of a query', () => {
  it.each([
    ['email', /users\.email is encrypted/],
    ['lower("Email")', /users\.email is encrypted/],
    ['u.email', /users\.email is encrypted/],
    ['(u).email', /all columns of U/],
    ['app.u.email', /users\.email is encrypted/],
    ['q.mail', /users\.email is encrypted/],
    ['rank() over (partition by mail)', /users\.email is encrypted/],
    ['other.email', /users\.email is encrypted/],
    ['*', /all columns of q/],
    ['U.*', /all columns of U/],
    ['other.*', /all columns of q/],
    ['to_jsonb(u)', /all columns of U/],
    ['to_jsonb(q.*)', /all columns of q/],
  ])('is refused where it names something encrypted: %s', (text, message) => {
    const refused = expect.objectContaining({ code: 'E_INVALID_INPUT', message: expect.stringMatching(message) })
    expect(() => assertSqlPart(text, relations)).toThrow(refused)
  })
  it.each([
    'contacts.email',
    'posts.*',
    'to_jsonb(posts)',
    'count(*)',
    'email(1)',
    'u.id',
    'id * 2',
    "'email'",
    'email is not null or u.email is null',
  ])('is sent where it names other columns: %s', (text) => expect(assertSqlPart(text, relations)).toBeUndefined())
})

describe('a name in an inner query', () => {
  const inner = [{ alias: 'posts', sealed: [], plain: ['Email'] }, ...relations]
  it('means the innermost column that is known', () => {
    expect(assertSqlPart('email', inner)).toBeUndefined()
    expect(() => assertSqlPart('u.email', inner)).toThrow(/users\.email is encrypted/)
    expect(() => assertSqlPart('email', [...relations, ...inner])).toThrow(/users\.email is encrypted/)
  })
  it('means a column of the result where rows are sorted', () => {
    expect(() => assertSqlOrder('email', inner, { places: [[email]] })).toThrow(/cannot sort or group/)
  })
})

describe('the text of an order by', () => {
  const result = { places: [[], [mail], []], later: [email] }
  it.each(['email', 'mail desc', '2', '1, (2)', 'lower(q.mail)', '4'])(
    'is refused where rows would be sorted by ciphertext: %s',
    (text) => {
      const message = 'users.email is encrypted: the database cannot sort or group by it'
      expect(() => assertSqlOrder(text, relations, result)).toThrow(expect.objectContaining({ message }))
    },
  )
  it.each(['1, 3 desc', 'contacts.mail', 'posts.id', 'coalesce(id, 2)'])('is sent otherwise: %s', (text) => {
    expect(assertSqlOrder(text, relations, result)).toBeUndefined()
  })
})
