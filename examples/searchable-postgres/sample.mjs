// The sample customers as the application has them: dates are dates, numbers are numbers, empty cells are null.
import { fileURLToPath } from 'node:url'
import { readTable } from '../lib/csv.mjs'

/** @import { Customer } from './customers.mjs' */

const FILE = fileURLToPath(new URL('../data/customers.csv', import.meta.url))

/**
 * @param {number} count
 * @returns {Promise<Customer[]>}
 */
export async function readSample(count) {
  const { rows } = await readTable(FILE, ',')
  return rows.slice(0, count).map(({ id, country = '', full_name = '', email = '', ...row }) => ({
    id: Number(id),
    country,
    full_name,
    email,
    phone: row.phone || null,
    birth_date: row.birth_date ? new Date(row.birth_date) : null,
    address: row.address || null,
    notes: row.notes || null,
    balance: row.balance ? Number(row.balance) : null,
  }))
}
