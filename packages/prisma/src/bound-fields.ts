/** The fields that are read of a row before it is changed, and by which it is found again. */
import { type Row, refuseCall } from '@eaas/sdk/adapter'
import type { KnownModel } from './schema.js'

/** The fields that identify a row, those that values are bound to, and those that may determine the key of the row. */
export function selectOf({ sealed, ids, joins, fields, relations }: KnownModel): Row {
  const inherited = [...joins.values()].flatMap(({ isOwn, pairs }) => (isOwn ? [] : pairs.map(({ own }) => own)))
  const made = sealed?.columns.filter((column) => !sealed.bind.includes(column)) ?? []
  const plain = sealed?.keyByRow ? [...fields].filter((field) => !relations.has(field) && !made.includes(field)) : []
  return Object.fromEntries([...ids, ...(sealed?.bind ?? []), ...inherited, ...plain].map((field) => [field, true]))
}

export function boundTo({ sealed, ids }: KnownModel, row: Row): Row {
  const names = sealed ? [...ids, ...sealed.bind] : Object.keys(row)
  return Object.fromEntries(
    names.map((field) => [field, row[field] ?? refuseCall('an update of a row without an id', 'Give the row one.')]),
  )
}
