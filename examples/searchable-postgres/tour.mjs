// The tour, step by step. What an application would do with the SDK is in customers.mjs.
import { isDeepStrictEqual } from 'node:util'
import { createClient } from '@eaas/sdk'
import { count, printable } from '../lib/output.mjs'
import {
  defineCustomers,
  findByEmail,
  findByName,
  findByNameAndBirth,
  insertAll,
  openAll,
  readAll,
  resealSome,
  rewrapAll,
  TABLE,
} from './customers.mjs'
import { readSample } from './sample.mjs'

/** @import { Client } from '@eaas/sdk' */
/** @import { Stage as Example } from '../lib/run-example.mjs' */
/** @import { Customer, Customers, Opened } from './customers.mjs' */
/** @import { Database, Query } from './database.mjs' */

const ROWS = 600
const RESEALED = 3
const SHOWN_DIFFERENCES = 10

/** @typedef {Example & { database: Database, tamper: boolean }} Stage */

/**
 * Fills the table, searches it, rewraps it under a new version of its key, reads it back and compares.
 *
 * @param {Stage} stage
 * @returns {Promise<string[]>} what was wrong; empty if nothing was
 */
export async function tour({ openServer, database, output, tamper, signal }) {
  const { step, tell } = output
  const { query } = database
  const since = performance.now()
  output.title('EaaS: a PostgreSQL table with encrypted columns, and search')

  const list = await step('Read the sample customers', () => readSample(ROWS))
  await step('Create a table with an SQL index on each index column', () => database.execute(TABLE))
  tell(`${database.name}.`)
  const server = openServer()
  const baseUrl = await step('Start EaaS, on a database of its own', () => server.listening)
  const apiKey = await server.createTenant()

  const eaas = createClient({ baseUrl, apiKey })
  const other = createClient({ baseUrl, apiKey })
  try {
    const { id: keyId } = await eaas.keys.create({ name: 'customers' }, { signal })
    const model = defineCustomers(eaas, keyId)

    await step('Seal the customers in this process, and insert them', async (report) => {
      for await (const done of insertAll(query, model, list, signal)) report({ done, total: list.length })
    })
    await database.execute('analyze customers')
    const wraps = await countEntries(eaas, 'key.wrap', signal)
    tell(`${count(list.length)} rows. Each batch has a data key (DEK) of its own; the server wrapped ${count(wraps)}.`)
    await showRow(output, query, list)

    const problems = await search(output, query, model, list)
    problems.push(...(await rotate(output, query, { eaas, model, keyId, signal })))
    problems.push(...(await reseal(output, database, model, list)))
    if (tamper) {
      const id = await alterOneBit(query)
      tell(`--tamper: one bit of the address of customer ${id} was altered in the table. That row must not open.`)
    }

    const { customers, failed } = await readBack(output, query, defineCustomers(other, keyId))
    for (const { id, error } of failed)
      problems.push(`customer ${id}, ${error.message.replace(/^.*?(?=field )/, '')} (${error.code})`)
    const refused = failed.map(({ id }) => id)
    const differences = findDifferences(
      list.filter(({ id }) => !refused.includes(id)),
      customers,
    )
    problems.push(...differences.slice(0, SHOWN_DIFFERENCES))
    tell(
      `${count(customers.length)} opened, ${count(failed.length)} did not; ${count(differences.length)} differences.`,
    )

    const { valid, total_entries } = await step('Have the audit log verified', () => eaas.audit.verify({ signal }))
    if (!valid) problems.push('the chain of the audit log is broken')

    output.title('Result')
    output.table([
      ['rows', list.length],
      ['wraps', await countEntries(eaas, 'key.wrap', signal)],
      ['unwraps', await countEntries(eaas, 'key.unwrap', signal)],
      ['audit entries', total_entries],
      ['chain valid', valid ? 'yes' : 'NO'],
      ['rows that did not open', failed.length],
      ['differences', differences.length],
      ['seconds', ((performance.now() - since) / 1000).toFixed(1)],
    ])
    return problems
  } finally {
    eaas.close()
    other.close()
  }
}

/**
 * @param {Stage['output']} output
 * @param {Query} query
 * @param {Customer[]} list
 */
async function showRow({ tell, table }, query, list) {
  const [row] = await query('select * from customers where id = $1', [list[0]?.id])
  tell('A row, as the database has it:\n')
  table(Object.entries(row).map(([name, value]) => [name, printable(JSON.stringify(value), 90)]))
}

/**
 * Searches in the three ways, and compares the results with the known customers.
 *
 * @param {Stage['output']} output
 * @param {Query} query
 * @param {Customers} model
 * @param {Customer[]} list
 */
async function search({ step, tell }, query, model, list) {
  const wanted = pickWanted(list)
  const { full_name, birth_date } = wanted
  /** @type {string[]} */
  const problems = []
  /** @param {string} how @param {Opened} opened @param {(one: Customer) => boolean} isMeant */
  const compare = (how, { customers, failed }, isMeant) => {
    const ids = customers.map(({ id }) => id).sort((a, b) => a - b)
    const expected = list.filter(isMeant).map(({ id }) => id)
    if (failed.length > 0 || ids.join() !== expected.join()) {
      problems.push(`the search by ${how} found ${ids.join(', ') || 'nothing'} instead of ${expected.join(', ')}`)
    }
  }

  const typed = ` ${wanted.email.toUpperCase()} `
  const byEmail = await step('Search by email address', () => findByEmail(query, model, typed))
  tell(
    `where email_index = …: typed as "${typed}", found customer ${byEmail.customers.map(({ id }) => id).join(', ')}.`,
  )
  compare('email address', byEmail, ({ email }) => email === wanted.email)
  const { email_index } = await model.index({ email: typed })
  const plan = await query('explain (format json) select id from customers where email_index = $1', [email_index])
  const { 'Node Type': node, 'Index Name': used } = planOf(plan)
  tell(`PostgreSQL looks it up by: ${node}${used ? ` using ${used}` : ''}.`)

  const byName = await step('Search by name, whose index keeps 6 bits', () => findByName(query, model, full_name))
  tell(
    `where name_index = …: ${count(byName.candidates)} rows to open; ${count(byName.customers.length)} of them have the name.`,
  )
  compare('name', byName, (one) => normalized(one.full_name) === normalized(full_name))

  const byBoth = await step('Search by name and birth date, one index over both', () =>
    findByNameAndBirth(query, model, { full_name, birth_date }),
  )
  tell(`where name_birth_index = …: ${count(byBoth.customers.length)} row.`)
  compare(
    'name and birth date',
    byBoth,
    (one) => normalized(one.full_name) === normalized(full_name) && one.birth_date?.getTime() === birth_date.getTime(),
  )
  return problems
}

/**
 * Rotates the key and rewraps all rows.
 *
 * @param {Stage['output']} output
 * @param {Query} query
 * @param {{ eaas: Client, model: Customers, keyId: string, signal: AbortSignal }} options
 */
async function rotate({ step, tell }, query, { eaas, model, keyId, signal }) {
  const problems = []
  const before = await ciphertexts(query)
  const { current_version } = await step('Rotate the key', () => eaas.keys.rotate(keyId, { signal }))
  tell(
    `Version ${current_version} wraps from now on. The data keys of all rows are still wrapped under version ${current_version - 1}.`,
  )

  const [all] = await query('select count(*)::integer as rows from customers')
  const progress = await step('Rewrap all rows', async (report) => {
    let latest = { done: 0, changed: 0, current: 0, failed: 0 }
    for await (const batch of rewrapAll(query, model, signal)) {
      latest = batch.progress
      report({ done: latest.done, total: all.rows })
    }
    return latest
  })
  const wrappedKeys = await countEntries(eaas, 'key.wrap', signal, { rewrapped: true })
  tell(
    `${count(progress.changed)} rows changed, ${count(progress.failed)} failed; the server rewrapped ${wrappedKeys} data keys.`,
  )
  tell(
    'Rewrap when a version of the key leaked or is to be retired. The data keys stay the same, and so do the ciphertexts.',
  )

  const [old] = await query(
    `select count(*)::integer as rows from customers where (envelope ->> 'key_version')::integer <> $1`,
    [current_version],
  )
  if (old.rows > 0 || progress.failed > 0) problems.push(`${old.rows} rows are still under the old version of the key`)
  if ((await ciphertexts(query)) !== before) problems.push('rewrapping changed a ciphertext')
  return problems
}

/**
 * Reseals a few rows.
 *
 * @param {Stage['output']} output
 * @param {Database} database
 * @param {Customers} model
 * @param {Customer[]} list
 */
async function reseal({ step, tell }, database, model, list) {
  const { query } = database
  const ids = list.slice(0, RESEALED).map(({ id }) => id)
  const [before, others] = [await ciphertexts(query, ids), await ciphertexts(query, ids, { but: true })]
  const resealed = await step(`Reseal ${RESEALED} rows`, () => resealSome(database, model, ids))
  tell(
    'Reseal when a data key leaked: these rows now have a new one. Copies made before can still be read with the old one.',
  )

  const problems = []
  const [row] = await query('select count(distinct envelope)::integer as deks from customers where id = any ($1)', [
    ids,
  ])
  const changed = (await ciphertexts(query, ids)) !== before
  if (resealed !== RESEALED || row.deks !== 1 || !changed) problems.push('the rows were not resealed under a new DEK')
  if ((await ciphertexts(query, ids, { but: true })) !== others) problems.push('resealing changed other rows')
  return problems
}

/**
 * Hashes the sealed values of all rows, of some, or of all but those.
 *
 * @param {Query} query
 * @param {number[]} [ids]
 * @param {{ but?: boolean }} [options]
 * @returns {Promise<string>}
 */
async function ciphertexts(query, ids = [], { but = ids.length === 0 } = {}) {
  const [row] = await query(
    `select md5(string_agg(concat(full_name, email, phone, birth_date, address, notes, balance), ';' order by id)) as hash
     from customers where (id = any ($1)) <> $2`,
    [ids, but],
  )
  return row.hash
}

/**
 * @param {Stage['output']} output
 * @param {Query} query
 * @param {Customers} model
 * @returns {Promise<Opened>}
 */
async function readBack({ step }, query, model) {
  return step('Read all customers back, with another client', async (report) => {
    const rows = []
    for await (const row of readAll(query)) {
      rows.push(row)
      report({ done: rows.length, total: ROWS })
    }
    return openAll(model, rows)
  })
}

/**
 * Compares the customers that were opened with what went in, value by value.
 *
 * @param {Customer[]} list
 * @param {Customer[]} opened
 * @returns {string[]} where they differ; no value is quoted
 */
export function findDifferences(list, opened) {
  const byId = new Map(opened.map((customer) => [customer.id, customer]))
  const known = new Set(list.map(({ id }) => id))
  const added = opened.filter(({ id }) => !known.has(id)).map(({ id }) => `customer ${id} was never put in`)
  const lost = list.flatMap((customer) => {
    const other = byId.get(customer.id)
    if (!other) return [`customer ${customer.id} did not come back`]
    return isDeepStrictEqual(customer, other) ? [] : [`customer ${customer.id} is not as it was`]
  })
  return [...added, ...lost]
}

/**
 * @param {Query} query
 * @returns {Promise<number>} the id of the customer
 */
async function alterOneBit(query) {
  const [row] = await query('select id, address from customers where address is not null order by id desc limit 1')
  const bytes = Buffer.from(row.address.c, 'base64')
  bytes.writeUInt8(bytes.readUInt8(0) ^ 1, 0)
  await query('update customers set address = $1 where id = $2', [
    { ...row.address, c: bytes.toString('base64') },
    row.id,
  ])
  return row.id
}

/**
 * Picks a customer to look for: with a birth date, and with a name that others have too.
 *
 * @param {Customer[]} list
 */
function pickWanted(list) {
  const names = list.map(({ full_name }) => normalized(full_name))
  for (const customer of list) {
    const { birth_date } = customer
    const isShared = names.filter((name) => name === normalized(customer.full_name)).length > 1
    if (birth_date && isShared) return { ...customer, birth_date }
  }
  throw new Error('the sample has no two customers of one name')
}

/** @param {string} name */
function normalized(name) {
  return name.normalize('NFKC').trim().toLowerCase()
}

/**
 * Finds the innermost step by which PostgreSQL gets the rows: below a bitmap scan, the index that makes the bitmap.
 *
 * @param {any[]} rows the answer to `explain (format json)`
 * @returns {Record<string, any>}
 */
function planOf([row]) {
  let [{ Plan: plan }] = row['QUERY PLAN']
  while (plan.Plans) plan = plan.Plans[0]
  return plan
}

/**
 * @param {Client} eaas
 * @param {'key.wrap' | 'key.unwrap'} action
 * @param {AbortSignal} signal
 * @param {{ rewrapped?: boolean }} [options] whether only rewraps count
 */
async function countEntries(eaas, action, signal, { rewrapped = false } = {}) {
  let counted = 0
  for await (const { metadata } of eaas.audit.entries({ action, signal })) {
    if (!rewrapped || (metadata && 'rewrapped_from' in metadata)) counted++
  }
  return counted
}
