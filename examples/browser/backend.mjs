// The application's backend: sessions, customers as ciphertext, the broker, and the built page with a strict policy.
import { createServer } from 'node:http'
import { fromText, isEnvelope } from '@eaas/sdk'
import { createBroker, toNodeHandler } from '@eaas/sdk/broker'
import { noting } from './live.mjs'
import { createSessions } from './sessions.mjs'
import { servePage } from './static.mjs'

/** @import { IncomingMessage, ServerResponse } from 'node:http' */
/** @import { createLive } from './live.mjs' */

const MAX_BODY_BYTES = 65_536
const SEALED = ['name', 'email', 'phone', 'note']

/**
 * @typedef {object} BackendOptions
 * @property {string} eaasUrl
 * @property {string} apiKey the broker's: `wrap`, `unwrap` and `audit:on_behalf_of`, for the customers' key only
 * @property {{ key_id: string }} keys the key of the customers
 * @property {object[]} customers sealed rows to begin with
 * @property {string} pageFolder the built page
 * @property {ReturnType<typeof createLive>} live
 */

/**
 * Makes the server; does not listen yet.
 *
 * @param {BackendOptions} options
 */
export function createBackend({ eaasUrl, apiKey, keys, customers, pageFolder, live }) {
  const sessions = createSessions()
  const rows = customers.map((row, at) => ({ ...row, id: at + 1, added_by: 'import' }))

  // Pages get no API key. They call the broker with their session. It unwraps data keys for users who may read, and gets the
  // index secret for users who may search. Nothing is sent to be hashed.
  const broker = toNodeHandler(
    createBroker({
      baseUrl: eaasUrl,
      apiKey,
      authenticate: (request) => sessions.find(request.headers.get('cookie')),
      allow: (user, { operation, key_id }) => {
        if (key_id !== keys.key_id) return false
        if (operation === 'wrap') return user.may_add
        if (operation === 'indexSecret') return user.may_search
        return operation === 'unwrap' && user.may_read
      },
      fetch: noting(live),
    }),
  )

  /** @type {Record<string, (request: IncomingMessage, response: ServerResponse) => unknown>} */
  const routes = {
    'POST /api/session': async (request, response) => {
      const begun = sessions.begin(/** @type {any} */ (await readJson(request))?.user, request.headers.cookie)
      if (!begun) throw new Refused(400)
      sendJson(response.setHeader('set-cookie', begun.cookie), { user: begun.user, ...keys })
    },
    'GET /api/live': (request, response) => {
      getUser(request)
      live.add(response)
    },
    'GET /api/customers': (request, response) => {
      const user = getUser(request).id
      const email_index = new URL(request.url ?? '', 'http://localhost').searchParams.get('email_index')
      if (email_index !== null) live.note({ by: 'application', what: 'search', user, body: { email_index } })
      const found = rows.filter((row) => email_index === null || Reflect.get(row, 'email_index') === email_index)
      sendJson(response, found)
    },
    'POST /api/customers': async (request, response) => {
      const user = getUser(request).id
      const row = readSealed(await readJson(request), keys.key_id)
      live.note({ by: 'application', what: 'new customer', user, body: row })
      const stored = { ...row, id: rows.length + 1, added_by: user }
      rows.push(stored)
      sendJson(response, stored)
    },
  }

  /** @param {IncomingMessage} request */
  function getUser(request) {
    const user = sessions.find(request.headers.cookie)
    if (!user) throw new Refused(401)
    return user
  }

  return createServer(async (request, response) => {
    const [path = ''] = (request.url ?? '').split('?')
    try {
      if (path.startsWith('/api/eaas/')) broker(request, response)
      else if (!path.startsWith('/api/')) await servePage(pageFolder, path, request, response)
      else await (routes[`${request.method} ${path}`] ?? notFound)(request, response)
    } catch (error) {
      if (!(error instanceof Refused)) console.error(error)
      if (!response.headersSent) response.writeHead(error instanceof Refused ? error.status : 500)
      response.end()
    }
  })
}

class Refused extends Error {
  /** @param {number} status */
  constructor(status) {
    super(`refused with ${status}`)
    this.status = status
  }
}

function notFound() {
  throw new Refused(404)
}

/**
 * Reads JSON that our own page sent: another site's form cannot send this type, and its scripts would have to ask
 * (CORS).
 *
 * @param {IncomingMessage} request
 * @returns {Promise<unknown>}
 */
async function readJson(request) {
  const { 'content-type': type, 'sec-fetch-site': site = 'same-origin' } = request.headers
  if (type !== 'application/json' || site !== 'same-origin') throw new Refused(403)
  let text = ''
  for await (const chunk of request.setEncoding('utf8')) {
    text += chunk
    if (text.length > MAX_BODY_BYTES) throw new Refused(413)
  }
  try {
    return JSON.parse(text)
  } catch {
    throw new Refused(400)
  }
}

/**
 * Accepts only envelopes: values that a page forgot to encrypt are not stored.
 *
 * @param {unknown} body
 * @param {string} keyId
 */
function readSealed(body, keyId) {
  const row = /** @type {Record<string, any>} */ (body ?? {})
  const isSealed = SEALED.every((name) => {
    const text = row[name]
    return typeof text === 'string' && text.startsWith('eaas.2.') && isEnvelope(text) && fromText(text).key_id === keyId
  })
  if (!isSealed || !/^[0-9a-f]{64}$/.test(row.email_index)) throw new Refused(400)
  return { ...Object.fromEntries(SEALED.map((name) => [name, row[name]])), email_index: row.email_index }
}

/**
 * @param {ServerResponse} response
 * @param {unknown} body
 */
function sendJson(response, body) {
  response.writeHead(200, { 'content-type': 'application/json', 'cache-control': 'no-store' })
  response.end(JSON.stringify(body))
}
