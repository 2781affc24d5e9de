/** What an option's function makes of a row: the texts to which another library bound a value. */
import { ContentError } from '@eaas/sdk'
import type { Row } from '@eaas/sdk/maintenance'

/** What to do about a column that the row lacks. */
export const ROW_HINT =
  'The row has the columns of the model; name others in `readColumns` of postgresTable(). Bind the model to columns that never change only.'

/**
 * Calls a function of the application with a row. Returns undefined when it throws: its error may quote the row.
 * @throws ContentError when it reads a column that the row lacks, which String() would turn into text
 */
export function askWithRow(option: string, ask: (row: Readonly<Row>) => unknown, row: Readonly<Row>): unknown {
  let lacking: string | undefined
  const guarded = new Proxy(row, {
    get(target, name) {
      if (typeof name === 'string' && !(name in target)) lacking ??= name
      return Reflect.get(target, name)
    },
  })
  let made: unknown
  try {
    made = ask(guarded)
  } catch {
    // undefined
  }
  if (lacking === undefined) return made
  throw new ContentError(`\`${option}\` reads the column ${JSON.stringify(lacking)}, which the row lacks`, ROW_HINT)
}
