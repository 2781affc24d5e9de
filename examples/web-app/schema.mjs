// The tables, and what of them is encrypted. Names, addresses and telephone numbers are; roles are not.
import { text } from '@eaas/sdk'
import { text as column, pgTable, primaryKey, uuid } from 'drizzle-orm/pg-core'

/** @import { Client } from '@eaas/sdk' */

export const users = pgTable('users', {
  // Known before the insert, since the encrypted values are bound to it.
  id: uuid()
    .primaryKey()
    .$defaultFn(() => crypto.randomUUID()),
  name: column().notNull(),
  email: column().notNull(),
  emailIndex: column('email_index').unique(), // the database refuses a second user of the same address
  phone: column(),
})

export const roles = pgTable(
  'roles',
  {
    userId: uuid('user_id')
      .notNull()
      .references(() => users.id, { onDelete: 'cascade' }),
    role: column().notNull(),
  },
  (table) => [primaryKey({ columns: [table.userId, table.role] })],
)

/** The same as SQL; a real application has it as a migration of drizzle-kit. */
export const TABLES = `
  create table users (id uuid primary key, name text not null, email text not null, email_index text unique, phone text);
  create table roles (
    user_id uuid not null references users on delete cascade,
    role text not null,
    primary key (user_id, role)
  );
`

/**
 * Which columns of `users` are encrypted, and by which one a user is found again. Each value is bound to its row and its column.
 *
 * @param {Client} eaas
 * @param {string} keyId
 */
export function defineUsers(eaas, keyId) {
  return eaas.model({
    name: 'users',
    keyId,
    bind: ['id'],
    format: 'text', // each value is one text in its column
    fields: {
      name: text(),
      email: text({ index: 'emailIndex', normalize: ['trim', 'lowercase'] }),
      phone: text().nullable(),
    },
  })
}
