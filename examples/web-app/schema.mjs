// The tables, and what is encrypted in them: names, addresses and telephone numbers, but not roles.
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
  emailIndex: column('email_index').unique(),
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

/** The tables as they were before the application encrypted: a real application has them, with rows, and the changes below as migrations. */
export const TABLES = `
  create table users (id uuid primary key, name text not null, email text not null, phone text);
  create table roles (
    user_id uuid not null references users on delete cascade,
    role text not null,
    primary key (user_id, role)
  );
`
/** Before the application encrypts. The columns that hold encrypted values are of type text already. */
export const ADD_INDEX = 'alter table users add column email_index text'
/** Once every row has its index: from then on the database refuses a second user of the same address. */
export const MAKE_UNIQUE = 'alter table users add unique (email_index)'

/**
 * Which columns of `users` are encrypted, and by which one a user is found again. Each value is bound to its row and its column.
 *
 * @param {Client} eaas
 * @param {string} keyId
 * @param {{ acceptPlaintext?: boolean }} [options] `acceptPlaintext` until all rows are encrypted, and not a day longer:
 * with it, anyone who can write to the table can put any value there
 */
export function defineUsers(eaas, keyId, { acceptPlaintext = false } = {}) {
  return eaas.model({
    name: 'users',
    keyId,
    bind: ['id'],
    format: 'text', // each value is one text in its column
    acceptPlaintext,
    warn: false,
    fields: {
      name: text(),
      email: text({ index: 'emailIndex', normalize: ['trim', 'lowercase'] }),
      phone: text().nullable(),
    },
  })
}
