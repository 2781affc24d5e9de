// All that the application does with the SDK: what a customer is, and how the table is filled, searched and kept up to date.
import { date, number, text } from '@eaas/sdk'

/** @import { Client, FailedRow, PlainRow, RewrapBatch, StoredRow } from '@eaas/sdk' */
/** @import { Database, Query } from './database.mjs' */

/** @typedef {ReturnType<typeof defineCustomers>} Customers */
/** @typedef {{ id: number, country: string } & PlainRow<Customers>} Customer */
/** @typedef {{ id: number, country: string } & StoredRow<Customers>} StoredCustomer */
/** @typedef {{ customers: Customer[], failed: { id: number, error: FailedRow['error'] }[] }} Opened */

const PAGE_ROWS = 100

/** In the form of the model: `envelope` holds what the fields of a row share, each field its ciphertext and iv. */
export const TABLE = `
  create temporary table customers (
    id               integer primary key,
    country          text not null,
    full_name        jsonb not null,
    email            jsonb not null,
    phone            jsonb,
    birth_date       jsonb,
    address          jsonb,
    notes            jsonb,
    balance          jsonb,
    envelope         jsonb not null,
    email_index      text not null,
    name_index       text not null,
    name_birth_index text
  );
  create unique index customers_email on customers (email_index);
  create index customers_name on customers (name_index);
  create index customers_name_birth on customers (name_birth_index);
`
const SEALED = ['full_name', 'email', 'phone', 'birth_date', 'address', 'notes', 'balance', 'envelope']
const INDEXES = ['email_index', 'name_index', 'name_birth_index']
const COLUMNS = ['id', 'country', ...SEALED, ...INDEXES].join(', ')

/**
 * Which columns are sealed, and by which a row is found again. The birth date alone has no index: it has few possible values.
 *
 * @param {Client} eaas
 * @param {string} keyId
 */
export function defineCustomers(eaas, keyId) {
  return eaas.model({
    name: 'customers',
    keyId,
    bind: ['id'], // known before the insert, and never changed: values that are swapped between rows do not open
    format: 'compact',
    dek: 'call', // a DEK that leaks opens the rows of one batch
    fields: {
      full_name: text({ index: 'name_index', bits: 6, normalize: ['NFKC', 'trim', 'lowercase'] }),
      email: text({ index: 'email_index', normalize: ['trim', 'lowercase'] }),
      phone: text().nullable(),
      birth_date: date().nullable(),
      address: text().nullable(),
      notes: text().nullable(),
      balance: number().nullable(),
    },
    indexes: { name_birth_index: { fields: ['full_name', 'birth_date'] } },
  })
}

/**
 * Seals customers and inserts them, a page at a time. Tells after each page how many are in the table.
 *
 * @param {Query} query
 * @param {Customers} model
 * @param {Customer[]} list
 * @param {AbortSignal} signal
 */
export async function* insertAll(query, model, list, signal) {
  for (let start = 0; start < list.length; start += PAGE_ROWS) {
    const rows = await model.encryptMany(list.slice(start, start + PAGE_ROWS), { signal })
    await query(
      `insert into customers (${COLUMNS}) select ${COLUMNS} from jsonb_populate_recordset(null::customers, $1)`,
      [rows],
    )
    yield Math.min(start + PAGE_ROWS, list.length)
  }
}

/**
 * Finds the customer with an email address, whatever its case: at most one row is read and opened.
 *
 * @param {Query} query
 * @param {Customers} model
 * @param {string} email
 */
export async function findByEmail(query, model, email) {
  const { email_index } = await model.index({ email })
  return openAll(model, await query(`select ${COLUMNS} from customers where email_index = $1`, [email_index]))
}

/**
 * Finds the customers of a name. Its index keeps only 6 bits, so other names share it: rows that are found are opened
 * and compared.
 *
 * @param {Query} query
 * @param {Customers} model
 * @param {string} full_name
 */
export async function findByName(query, model, full_name) {
  const { name_index } = await model.index({ full_name })
  const rows = await query(`select ${COLUMNS} from customers where name_index = $1 order by id`, [name_index])
  const { customers, failed } = await openAll(model, rows)
  return { customers: customers.filter((one) => model.matches(one, { full_name })), failed, candidates: rows.length }
}

/**
 * Finds the customers of a name who were born on a day: one index over both.
 *
 * @param {Query} query
 * @param {Customers} model
 * @param {{ full_name: string, birth_date: Date }} wanted
 */
export async function findByNameAndBirth(query, model, wanted) {
  const { name_birth_index } = await model.index(wanted)
  return openAll(model, await query(`select ${COLUMNS} from customers where name_birth_index = $1`, [name_birth_index]))
}

/**
 * Brings the wrapped keys of all rows to the current version of the key. Skips a row that was sealed anew meanwhile:
 * the new wrapped key is that of the old DEK, and would make the row unreadable.
 *
 * @param {Query} query
 * @param {Customers} model
 * @param {AbortSignal} signal
 * @returns {AsyncGenerator<RewrapBatch<StoredCustomer>>}
 */
export async function* rewrapAll(query, model, signal) {
  for await (const batch of model.rewrap(readAll(query), { batchSize: PAGE_ROWS, signal })) {
    const changed = batch.items.flatMap((item) => (item.status === 'changed' ? [item.row] : []))
    await query(
      `update customers set envelope = new.envelope from jsonb_populate_recordset(null::customers, $1) as new
       where customers.id = new.id and customers.email = new.email`,
      [changed],
    )
    yield batch
  }
}

/**
 * Seals some rows anew, under a new DEK. They are locked until it is done.
 *
 * @param {Database} database
 * @param {Customers} model
 * @param {number[]} ids
 */
export async function resealSome(database, model, ids) {
  const changes = [...SEALED, ...INDEXES].map((name) => `${name} = new.${name}`).join(', ')
  return database.transaction(async (query) => {
    /** @type {StoredCustomer[]} */
    const rows = await query(`select ${COLUMNS} from customers where id = any ($1) order by id for update`, [ids])
    for await (const { items } of model.reseal(rows)) {
      for (const item of items) if (item.status === 'failed') throw item.error
      const changed = items.flatMap((item) => (item.status === 'changed' ? [item.row] : []))
      await query(
        `update customers set ${changes} from jsonb_populate_recordset(null::customers, $1) as new
         where customers.id = new.id`,
        [changed],
      )
    }
    return rows.length
  })
}

/**
 * Opens rows. A row that does not open does not affect the others.
 *
 * @param {Customers} model
 * @param {StoredCustomer[]} rows
 * @returns {Promise<Opened>}
 */
export async function openAll(model, rows) {
  const { ok, failed } = await model.decryptMany(rows)
  return { customers: ok, failed: failed.map(({ index, error }) => ({ id: rows[index]?.id ?? 0, error })) }
}

/**
 * Reads all rows in the order of their ids, a page at a time.
 *
 * @param {Query} query
 * @returns {AsyncGenerator<StoredCustomer>}
 */
export async function* readAll(query) {
  let last = 0
  for (;;) {
    /** @type {StoredCustomer[]} */
    const rows = await query(`select ${COLUMNS} from customers where id > $1 order by id limit ${PAGE_ROWS}`, [last])
    yield* rows
    if (rows.length < PAGE_ROWS) return
    last = rows.at(-1)?.id ?? last
  }
}
