/**
 * What is selected beyond the application's request, such as the fields that encrypted ones are bound to. They are
 * removed once the rows are opened.
 */
import type { Row } from '@eaas/sdk/adapter'

export interface Shape {
  hidden: Set<string>
  /** The shape of the rows of each relation, by its field. */
  inner: Map<string, Shape>
}

export function newShape(): Shape {
  return { hidden: new Set(), inner: new Map() }
}

/** Removes the hidden fields from rows, in place. */
export function hide({ hidden, inner }: Shape, result: unknown): void {
  if (Array.isArray(result)) {
    for (const one of result) hide({ hidden, inner }, one)
  } else if (typeof result === 'object' && result !== null) {
    const row = result as Row
    for (const field of hidden) delete row[field]
    for (const [field, shape] of inner) hide(shape, row[field])
  }
}
