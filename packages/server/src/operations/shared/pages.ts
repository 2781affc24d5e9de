/**
 * Long lists: read in pages, and viewed in stretches between which other calls run, because each row has a
 * MAC to check.
 */
import { mapInStretches } from '../../event-loop.js'
import type { Operation } from '../../runner/operation.js'

/** Few enough that the driver parses a page in about a millisecond. */
const PAGE_ROWS = 200

/** The first page begins at an offset, each further one after the last row of the page before it. */
export interface Page<Row> {
  limit: number
  offset: number
  after: Row | undefined
}

/** Reads `limit` rows from `offset` on, a page when it is wanted; none is empty. */
export async function* readPages<Row, View>(
  { limit, offset, pageRows = PAGE_ROWS }: { limit: number; offset: number; pageRows?: number },
  readPage: (page: Page<Row>) => Promise<readonly Row[]>,
  view: (row: Row) => View,
): AsyncGenerator<Awaited<View>[], undefined> {
  let after: Row | undefined
  for (let left = limit; left > 0; ) {
    const wanted = Math.min(pageRows, left)
    const rows = await readPage({ limit: wanted, offset: after === undefined ? offset : 0, after })
    if (rows.length > 0) yield await mapInStretches(rows, view)
    if (rows.length < wanted) return
    left -= rows.length
    after = rows.at(-1)
  }
}

/** An answer of one list and its `count`, whose pages are read while it is sent. */
export class Paged<Answer> {
  constructor(
    /** the member that has the list */
    readonly name: string,
    readonly pages: AsyncGenerator<readonly unknown[], undefined>,
  ) {}

  /** Reads all pages. */
  async whole(): Promise<Answer> {
    const views: unknown[] = []
    for await (const page of this.pages) for (const view of page) views.push(view)
    return { [this.name]: views, count: views.length } as Answer
  }
}

/** An operation whose answer is read as a whole, for the server itself and its operator. */
export function whole<Answer>(operation: Operation<Paged<Answer>>): Operation<Answer> {
  return async (context) => {
    const made = await operation(context)
    return { ...made, release: async (written) => (await made.release(written)).whole() }
  }
}
