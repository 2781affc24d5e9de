// Sends requests to the application, as a browser or another service would, and checks the answers.
import { createClient } from '@eaas/sdk'
import { buildApp } from './app.mjs'
import { openDatabase } from './database.mjs'
import { rotate } from './rotate.mjs'
import { defineUsers, users } from './schema.mjs'

/** @import { Stage } from '../lib/run-example.mjs' */

/**
 * @param {Stage} stage
 * @returns {Promise<string[]>} what was not as it should be
 */
export async function tour({ output: { step, tell, table, title }, openServer, signal }) {
  title('A web application with encrypted columns')
  const server = openServer()
  const baseUrl = await step('Start an EaaS server on a new, empty database', () => server.listening)
  const apiKey = await step('Create a tenant', server.createTenant)
  const eaas = createClient({ baseUrl, apiKey })
  const { id: keyId } = await eaas.keys.ensure({ name: 'users' }, { signal })
  const model = defineUsers(eaas, keyId)
  const database = await step('Create the tables, on PGlite', () => openDatabase(model))
  const app = buildApp(database)
  /** @type {string[]} */
  const problems = []
  try {
    const url = await step('Start the application', () => app.listen({ host: '127.0.0.1', port: 0 }))

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

    const ada = await step('Create two users', async () => {
      await request('POST', '/users', { name: 'Grace', email: 'grace@example.org' })
      return request('POST', '/users', { name: 'Ada', email: 'Ada@example.org', phone: '+33 6 39 98 80 05' })
    })
    expect('a user is created', ada.status === 201 && ada.body.phone === '+33 6 39 98 80 05')
    const taken = await request('POST', '/users', { name: 'Eve', email: 'ADA@example.org' })
    expect('an address that is taken is refused, whatever its case', taken.status === 409)

    /** @param {string} email */
    const search = (email) => request('POST', '/users/search', { email })
    const found = await step('Find one by her address', () => search('ada@example.org'))
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

    const { version, rewrapped } = await step('Rotate the key, and rewrap the rows', () =>
      rotate(database, { eaas, keyId, model }, signal),
    )
    tell(`${rewrapped} rows are under version ${version} now. The application went on meanwhile.`)
    expect('both rows are rewrapped', rewrapped === 2)
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
