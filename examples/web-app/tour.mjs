// Sends requests to the application, as a browser or another service would, and checks the answers.
import { createClient } from '@eaas/sdk'
import { buildApp } from './app.mjs'
import { openDatabase } from './database.mjs'
import { encryptRows } from './encrypt-rows.mjs'
import { rotate } from './rotate.mjs'
import { ADD_INDEX, defineUsers, MAKE_UNIQUE, users } from './schema.mjs'

/** @import { Stage } from '../lib/run-example.mjs' */

const OLD_USER = '6f1d3a52-6b0c-4c54-9d0e-2f5d6e0f8a11'

/**
 * @param {Stage} stage
 * @returns {Promise<string[]>} what was wrong
 */
export async function tour({ output: { step, tell, table, title }, openServer, signal }) {
  title('A web application with encrypted columns')
  const server = openServer()
  const baseUrl = await step('Start an EaaS server on a new, empty database', () => server.listening)
  const apiKey = await step('Create a tenant', server.createTenant)
  const eaas = createClient({ baseUrl, apiKey })
  const { id: keyId } = await eaas.keys.ensure({ name: 'users' }, { signal })
  const strict = defineUsers(eaas, keyId)
  const migrating = defineUsers(eaas, keyId, { acceptPlaintext: true })
  const database = await step('Create the tables on PGlite, with a user who is not encrypted', async () => {
    const opened = await openDatabase()
    const old = { id: OLD_USER, name: 'Grace', email: 'Grace@example.org' }
    await opened.query('insert into users (id, name, email) values ($1, $2, $3)', [old.id, old.name, old.email])
    await opened.query(ADD_INDEX)
    return opened
  })
  let app = buildApp({ db: database.encrypted(migrating) })
  /** @type {string[]} */
  const problems = []
  try {
    let url = await step('Start the application', () => app.listen({ host: '127.0.0.1', port: 0 }))

    /**
     * @param {string} method
     * @param {string} path
     * @param {unknown} [body]
     */
    const request = async (method, path, body) => {
      const headers = body === undefined ? {} : { 'content-type': 'application/json' }
      const response = await fetch(url + path, {
        method,
        headers,
        body: body === undefined ? null : JSON.stringify(body),
        signal,
      })
      const text = await response.text()
      return { status: response.status, body: text === '' ? undefined : JSON.parse(text) }
    }
    /** @param {string} what @param {boolean} holds */
    const expect = (what, holds) => {
      if (!holds) problems.push(what)
    }

    /** @param {string} email */
    const search = (email) => request('POST', '/users/search', { email })

    const ada = await step('Create a user beside her', () =>
      request('POST', '/users', { name: 'Ada', email: 'Ada@example.org', phone: '+33 6 39 98 80 05' }),
    )
    expect('a user is created', ada.status === 201 && ada.body.phone === '+33 6 39 98 80 05')
    const before = await request('GET', `/users/${OLD_USER}`)
    expect('the application reads a row that is not encrypted yet', before.body.name === 'Grace')
    expect('no search finds it yet', (await search('grace@example.org')).body.length === 0)

    const { encrypted, left } = await step('Encrypt the rows of before', () =>
      encryptRows(database, { migrating, strict }, signal),
    )
    tell(`${encrypted} row was encrypted, and ${left} are left. The application went on meanwhile.`)
    expect('only the row of before is written', encrypted === 1 && left === 0)
    await step('Restart the application without acceptPlaintext', async () => {
      await database.query(MAKE_UNIQUE)
      await app.close()
      app = buildApp({ db: database.encrypted(strict) })
      url = await app.listen({ host: '127.0.0.1', port: 0 })
    })
    expect('a search finds it', (await search('grace@example.org')).body[0]?.id === OLD_USER)
    const taken = await request('POST', '/users', { name: 'Eve', email: 'ADA@example.org' })
    expect('an address that is taken is refused, whatever its case', taken.status === 409)

    const found = await step('Find a user by her address', () => search('ada@example.org'))
    expect('she is found by her address', found.body.length === 1 && found.body[0].name === 'Ada')

    await step('Give her a role, and list its users', async () => {
      await request('PUT', `/users/${ada.body.id}/roles/admin`)
      const admins = await request('GET', '/roles/admin/users')
      expect('she is the only admin', admins.body.length === 1 && admins.body[0].email === 'Ada@example.org')
    })

    await step('Change her address', () => request('PATCH', `/users/${ada.body.id}`, { email: 'countess@example.org' }))
    expect('the new address is found', (await search('countess@example.org')).body.length === 1)
    expect('the former one is not', (await search('ada@example.org')).body.length === 0)

    const rows = await database.stored.select().from(users)
    expect('nothing readable is stored', !JSON.stringify(rows).match(/Ada|Grace|example\.org|\+33/))
    tell('In the table, each value is the text of an envelope:')
    table(rows.map(({ name, email }) => [`${name.slice(0, 24)}…`, `${email.slice(0, 24)}…`]))

    const rotated = await step('Rotate the key, and rewrap the rows', () =>
      rotate(database, { eaas, keyId, model: strict }, signal),
    )
    tell(`${rotated.rewrapped} rows are under version ${rotated.version} now. The application went on meanwhile.`)
    expect('both rows are rewrapped', rotated.rewrapped === 2 && rotated.left === 0)
    const after = await request('GET', `/users/${ada.body.id}`)
    expect('she reads as before', after.body.name === 'Ada' && after.body.email === 'countess@example.org')

    await step('Delete her', () => request('DELETE', `/users/${ada.body.id}`))
    expect('she is gone', (await request('GET', `/users/${ada.body.id}`)).status === 404)
    expect('and so are her roles', (await request('GET', '/roles/admin/users')).body.length === 0)
    expect(
      'what is no user is refused',
      (await request('POST', '/users', { name: 'Eve', email: 'x', admin: true })).status === 400,
    )
    return problems
  } finally {
    await app.close()
    await database.close()
    eaas.close()
  }
}
