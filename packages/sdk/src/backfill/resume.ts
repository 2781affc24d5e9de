/** `after` of a run: the key behind which to go on, with the table that it belongs to. */
import { InvalidInputError } from '../errors.js'
import type { Table } from './table.js'

/** Returns what the next run is given as `after`. */
export function writeAfter({ scope }: Table, key: string): string {
  return scope === undefined ? key : JSON.stringify({ scope, key })
}

/** Returns the key behind which to go on. @throws InvalidInputError when it is one of another table */
export function readAfter({ scope }: Table, after: string | undefined): string | undefined {
  if (scope === undefined || after === undefined) return after
  const { scope: from, key } = parse(after) ?? {}
  if (typeof from !== 'string' || typeof key !== 'string') {
    throw new InvalidInputError('after is no key of this table', 'Pass the text that progress told, or omit it.')
  }
  if (from === scope) return key
  throw new InvalidInputError(
    `after belongs to ${from}, and this is ${scope}`,
    'Omit it to begin at the first row: rows that are done cost reading only.',
  )
}

function parse(after: string): { scope?: unknown; key?: unknown } | undefined {
  try {
    return JSON.parse(after) ?? undefined
  } catch {
    return undefined // not JSON
  }
}
