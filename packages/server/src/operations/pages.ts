/** Long lists: read in pages, and viewed in stretches between which other calls run, because each row has a MAC to check. */
import { mapInStretches } from '../turn.js'

const PAGE_ROWS = 250

/** Reads `limit` rows from `offset` on. */
export async function readPages<Row, View>(
  { limit, offset }: { limit: number; offset: number },
  readPage: (page: { limit: number; offset: number }) => Promise<readonly Row[]>,
  view: (row: Row) => View,
): Promise<Awaited<View>[]> {
  const views: Awaited<View>[] = []
  while (views.length < limit) {
    const wanted = Math.min(PAGE_ROWS, limit - views.length)
    const rows = await readPage({ limit: wanted, offset: offset + views.length })
    views.push(...(await mapInStretches(rows, view)))
    if (rows.length < wanted) break
  }
  return views
}
