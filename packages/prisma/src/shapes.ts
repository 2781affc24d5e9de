/**
 * What is selected beyond the application's request, such as the fields that encrypted ones are bound to. They are
 * hidden once the rows are opened: Prisma may still compute fields of other extensions by them.
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

/** Hides fields of rows, in place: they are not among the members that a row lists. */
export function hide({ hidden, inner }: Shape, result: unknown): void {
  if (Array.isArray(result)) {
    for (const one of result) hide({ hidden, inner }, one)
  } else if (typeof result === 'object' && result !== null) {
    const row = result as Row
    for (const field of hidden) {
      if (Object.hasOwn(row, field)) Object.defineProperty(row, field, { enumerable: false })
    }
    for (const [field, shape] of inner) hide(shape, row[field])
  }
}
