// The application: routes over Drizzle. Nothing here knows that columns are encrypted.
import { isEaasError } from '@eaas/sdk'
import { and, eq } from 'drizzle-orm'
import { fastify } from 'fastify'
import { roles, users } from './schema.mjs'

/** @import { Database } from './database.mjs' */

const USER = {
  type: 'object',
  additionalProperties: false,
  properties: {
    name: { type: 'string', minLength: 1, maxLength: 200 },
    email: { type: 'string', pattern: '^[^@\\s]+@[^@\\s]+$', maxLength: 254 },
    phone: { type: ['string', 'null'], maxLength: 40 },
  },
}
const SHOWN = { id: users.id, name: users.name, email: users.email, phone: users.phone }

/** @typedef {{ name: string, email: string, phone?: string | null }} NewUser */

/**
 * Builds the application. A real one authenticates its callers first.
 *
 * @param {{ db: ReturnType<Database['encrypted']> }} database the database that encrypts
 */
export function buildApp({ db }) {
  const app = fastify({ ajv: { customOptions: { removeAdditional: false, coerceTypes: false } } })

  app.setErrorHandler((error, _, reply) => {
    if (isUniqueViolation(error)) return reply.code(409).send({ error: 'this address is taken' })
    // The key service is unavailable: the caller may try again. The error is not shown.
    if (isEaasError(error) && error.retryable) return reply.code(503).send({ error: 'try again later' })
    const { validation, message } = /** @type {{ validation?: unknown, message?: string }} */ (error)
    if (validation) return reply.code(400).send({ error: message })
    console.error(isEaasError(error) ? `${error.code}: ${error.message}` : error)
    return reply.code(500).send({ error: 'something went wrong' })
  })

  app.post('/users', { schema: { body: { ...USER, required: ['name', 'email'] } } }, async (request, reply) => {
    const { name, email, phone = null } = /** @type {NewUser} */ (request.body)
    const [user] = await db.insert(users).values({ name, email, phone }).returning(SHOWN)
    return reply.code(201).send(user)
  })

  app.get('/users/:id', { schema: { params: idOf('id') } }, async (request, reply) => {
    const { id } = /** @type {{ id: string }} */ (request.params)
    const [user] = await db.select(SHOWN).from(users).where(eq(users.id, id))
    return user ?? reply.code(404).send({ error: 'no such user' })
  })

  // In the body, because every proxy logs URLs. Compares the index of the address: only the found row is decrypted.
  const search = {
    type: 'object',
    additionalProperties: false,
    properties: { email: USER.properties.email },
    required: ['email'],
  }
  app.post('/users/search', { schema: { body: search } }, async (request) => {
    const { email } = /** @type {{ email: string }} */ (request.body)
    return db.select(SHOWN).from(users).where(eq(users.email, email))
  })

  app.patch('/users/:id', { schema: { params: idOf('id'), body: USER } }, async (request, reply) => {
    const { id } = /** @type {{ id: string }} */ (request.params)
    const changes = /** @type {Partial<NewUser>} */ (request.body)
    if (Object.keys(changes).length === 0) return reply.code(400).send({ error: 'nothing to change' })
    const [user] = await db.update(users).set(changes).where(eq(users.id, id)).returning(SHOWN)
    return user ?? reply.code(404).send({ error: 'no such user' })
  })

  app.delete('/users/:id', { schema: { params: idOf('id') } }, async (request, reply) => {
    const { id } = /** @type {{ id: string }} */ (request.params)
    await db.delete(users).where(eq(users.id, id))
    return reply.code(204).send()
  })

  app.put('/users/:id/roles/:role', { schema: { params: idOf('id') } }, async (request, reply) => {
    const { id, role } = /** @type {{ id: string, role: string }} */ (request.params)
    await db.insert(roles).values({ userId: id, role }).onConflictDoNothing()
    return reply.code(204).send()
  })

  app.delete('/users/:id/roles/:role', { schema: { params: idOf('id') } }, async (request, reply) => {
    const { id, role } = /** @type {{ id: string, role: string }} */ (request.params)
    await db.delete(roles).where(and(eq(roles.userId, id), eq(roles.role, role)))
    return reply.code(204).send()
  })

  app.get('/roles/:role/users', async (request) => {
    const { role } = /** @type {{ role: string }} */ (request.params)
    return db.select(SHOWN).from(roles).innerJoin(users, eq(users.id, roles.userId)).where(eq(roles.role, role))
  })

  return app
}

/** @param {string} name */
function idOf(name) {
  const uuid = '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$'
  return { type: 'object', properties: { [name]: { type: 'string', pattern: uuid } } }
}

/** Drizzle wraps the error of the database. @param {unknown} error */
function isUniqueViolation(error) {
  const { code, cause } = /** @type {{ code?: string, cause?: { code?: string } }} */ (error)
  return code === '23505' || cause?.code === '23505'
}
