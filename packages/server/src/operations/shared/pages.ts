/** Long lists: read in pages, and viewed in stretches between which other calls run, because each row has a MAC to check. */
import { mapInStretches } from '../../event-loop.js'

/** Few enough that the driver parses a page in about a millisecond. */
const PAGE_ROWS = 200

/** The first page begins at an offset, each further one after the last row of the page before it. */
export interface Page<Row> {
  limit: number
  offset: number
  after: Row | undefined
}

/** Reads `limit` rows from `offset` on. */
export async function readPages<Row, View>(
  { limit, offset }: { limit: number; offset: number },
  readPage: (page: Page<Row>) => Promise<readonly Row[]>,
  view: (row: Row) => View,
): Promise<Awaited<View>[]> {
  const views: Awaited<View>[] = []
  let after: Row | undefined
  while (views.length < limit) {
    const wanted = Math.min(PAGE_ROWS, limit - views.length)
    const rows = await readPage({ limit: wanted, offset: after === undefined ? offset : 0, after })
    views.push(...(await mapInStretches(rows, view)))
    after = rows.at(-1)
    if (rows.length < wanted) break
  }
  return views
}
