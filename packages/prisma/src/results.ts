/** Opens the rows that Prisma returns, and those of their relations, in place. */
import type { Row } from '@eaas/sdk/adapter'
import type { KnownModel, Schema } from './schema.js'
import { isPlain } from './values.js'

export async function openResult(schema: Schema, model: KnownModel, result: unknown): Promise<void> {
  const found = new Map<KnownModel, Row[]>()
  collect(schema, model, result, found)
  await Promise.all([...found].map(([one, rows]) => openRows(one, rows)))
}

function collect(schema: Schema, model: KnownModel, result: unknown, found: Map<KnownModel, Row[]>): void {
  if (Array.isArray(result)) for (const one of result) collect(schema, model, one, found)
  else if (typeof result === 'object' && result !== null) {
    const row = result as Row
    const rows = found.get(model) ?? []
    if (rows.length === 0) found.set(model, rows)
    rows.push(row)
    for (const [field, relation] of model.relations) {
      const inner = Object.hasOwn(row, field) ? row[field] : undefined
      if (Array.isArray(inner) || isPlain(inner)) collect(schema, schema.get(relation), inner, found)
    }
  }
}

async function openRows({ sealed, relations }: KnownModel, rows: readonly Row[]): Promise<void> {
  if (!sealed) return
  const stored = rows.map((row) => Object.fromEntries(Object.entries(row).filter(([field]) => !relations.has(field))))
  const opened = await sealed.openRows(stored)
  for (const [at, row] of rows.entries()) {
    for (const field of Object.keys(stored[at] ?? {})) {
      if (sealed.isSealed(field)) row[field] = opened[at]?.[field]
    }
  }
}
