// What the demo shows between its steps: a row before and after, the audit log, what the server was sent.
import { count, printable } from '../lib/output.mjs'

/** @import { Client } from '@eaas/sdk' */
/** @import { Table } from '../lib/csv.mjs' */
/** @import { Stage } from '../lib/run-example.mjs' */
/** @import { watchTraffic } from './traffic.mjs' */

const SHOWN_ENTRIES = 8

/**
 * @param {Stage['output']} output
 * @param {Table} table
 * @param {string} index
 */
export function showIndex({ tell }, { rows }, index) {
  const distinct = new Set(rows.map((row) => row[index])).size
  const shown = printable(index)
  tell(`To make ${shown} searchable, its ${count(distinct)} different values were hashed in this process, with a`)
  tell('secret that the server derived from the key. None of them was sent.')
  if (distinct < rows.length) {
    tell(`Equal values have equal hashes: whoever holds the file sees which rows agree in ${shown}.`)
  }
}

/**
 * A row to show, near the middle: one with something in the index column, if any.
 *
 * @param {Table} table
 * @param {string[]} columns
 * @param {string | undefined} index
 */
export function pickExample({ rows }, columns, index) {
  const middle = Math.floor(rows.length / 2)
  const places = [...rows.keys()].sort((a, b) => Math.abs(a - middle) - Math.abs(b - middle))
  const at = places.find((place) => index !== undefined && rows[place]?.[index] !== '') ?? places[0]
  const row = at === undefined ? undefined : rows[at]
  if (at === undefined || !row) return undefined
  const column = columns.find((name) => name !== index && row[name] !== '') ?? columns[0] ?? ''
  return { at, row, column, isSearchable: index !== undefined && row[index] !== '' }
}

/**
 * @param {Stage['output']} output
 * @param {{ at: number, column: string, original: Table, encrypted: Table, indexColumn: string | undefined, isSample: boolean }} example
 */
export function showExample({ tell, table }, { at, column, original, encrypted, indexColumn, isSample }) {
  const before = original.rows[at]?.[column] ?? ''
  const after = encrypted.rows[at] ?? {}
  const name = printable(column, 20)
  tell(`Row ${count(at + 1)}, for example:\n`)
  table([
    [name, 'before', isSample ? printable(before) : `${count(before.length)} characters, not shown here`],
    [name, 'after', printable(after[column] ?? '', 80)],
    ...(indexColumn === undefined
      ? []
      : [[printable(indexColumn, 20), 'added', printable(after[indexColumn] ?? '', 80)]]),
  ])
}

/** @param {number[]} places */
export function listRows(places) {
  if (places.length === 0) return 'no row'
  const shown = places.slice(0, 5).map((at) => count(at + 1))
  const more = places.length > shown.length ? ` and ${count(places.length - shown.length)} more` : ''
  return `row${places.length > 1 ? 's' : ''} ${shown.join(', ')}${more}`
}

/**
 * @param {Stage['output']} output
 * @param {Client} eaas
 * @param {AbortSignal} signal
 */
export async function showEntries({ table }, eaas, signal) {
  const { logs } = await eaas.audit.list({ limit: SHOWN_ENTRIES, signal })
  const rows = logs.map(({ id, created_at, action, key_version, actor, ip_address }) => [
    created_at,
    action,
    key_version === null ? '' : `version ${key_version}`,
    actor === 'system' ? 'the operator' : `API key ${actor.slice(0, 8)}…`,
    ip_address ?? '',
    id,
  ])
  table([['time', 'action', 'key', 'by', 'from', 'entry'], ...rows], { heading: true })
}

/**
 * @param {Stage['output']} output
 * @param {ReturnType<ReturnType<typeof watchTraffic>['sent']>} sent
 * @param {string | undefined} index
 */
export function showTraffic({ title, tell, table }, sent, index) {
  title('All that the server was sent')
  const rows = sent.map(({ route, requests, fields }) => [route, [...fields].join(', ') || 'nothing', requests])
  table([['request', 'fields in the body', 'times'], ...rows], { heading: true })
  tell('It wrapped and unwrapped keys (dek), but was never sent anything that was encrypted or hashed with them:')
  tell(index === undefined ? 'no value of the file.' : `no value of the file, not even of ${printable(index)}.`)
}
