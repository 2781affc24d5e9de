/** Warns of an index over data of few possible values. Loaded with the first call. */
import type { Definition } from './definition.js'

/** The names of fields with few possible values, all of which an index gives away. */
const LOW_ENTROPY =
  /^(?:birth(?:day|date)?|dateofbirth|dob|born|age|gender|sex|zip(?:code)?|postal(?:code)?|postcode|plz|country|nationality|religion|race|ethnicity|marital|blood|diagnosis|salary|pin)$/

const warned = new Set<string>()
const checked = new WeakSet<Definition>()

/** Warns of each index of a model that gives all its values away. */
export function warnOfFewValues(definition: Definition): void {
  if (checked.has(definition)) return
  checked.add(definition)
  const { columns, warn } = definition
  if (warn)
    for (const { column, fields } of columns)
      warnOf(
        column,
        fields.map(({ name }) => name),
      )
}

/**
 * Warns, once a process for a column and its fields, of an index over data with so few possible values that
 * all can be tried.
 */
function warnOf(column: string, fields: readonly string[]): void {
  const index = JSON.stringify([column, fields])
  if (warned.has(index) || !fields.every(hasFewValues)) return
  warned.add(index)
  console.warn(
    `@eaas/sdk: the index ${JSON.stringify(column)} is over ${fields.join(', ')}, which looks like data of few values: ` +
      'who can read the column and call hash can find them all. Omit the index, add a field, or pass `warn: false`.',
  )
}

function hasFewValues(field: string): boolean {
  const words = field.split(/[^A-Za-z]+|(?<=[a-z])(?=[A-Z])/).map((word) => word.toLowerCase())
  // Two in a row may be one word: `post_code`.
  return words.some((word, at) => LOW_ENTROPY.test(word) || LOW_ENTROPY.test(word + (words[at + 1] ?? '')))
}
