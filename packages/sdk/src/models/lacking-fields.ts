/** Which fields of a row must be written together. */
import type { RowFormat } from './definition.js'

/** What is made of which fields. */
interface Parts<F> {
  fields: readonly F[]
  columns: readonly { column: string; fields: readonly F[] }[]
  format: RowFormat
  rowSeal: boolean
}

/**
 * Finds another field that must be written with the picked ones: a compact row, or one with a seal, is written as a
 * whole, and an index is made of all its fields.
 */
export function findLacking<F extends { name: string }>(
  { fields, columns, format, rowSeal }: Parts<F>,
  isPicked: (field: F) => boolean,
): { field: string; message: string } | undefined {
  if (!fields.some(isPicked)) return undefined
  const other = fields.find((field) => !isPicked(field))
  if (rowSeal && other) return { field: other.name, message: 'a row with a seal is written as a whole' }
  if (format === 'compact' && other) return { field: other.name, message: 'a compact row is sealed as a whole' }
  for (const { column, fields: parts } of columns) {
    const lacking = parts.find((part) => !isPicked(part))
    if (lacking && parts.some(isPicked))
      return { field: lacking.name, message: `the index ${JSON.stringify(column)} needs it too` }
  }
  return undefined
}
