/** Long lists: read in pages, and checked and viewed in stretches between which other calls run. */
import type { KeyObject } from 'node:crypto'
import { findTampering } from '../audit/formats/row-mac.js'
import { mapInStretches } from '../event-loop.js'
import type { Context, Operation } from '../runner/operation.js'
import { performAsSystem } from '../runner/perform.js'

/** So few that the driver parses a page in about a millisecond. */
const PAGE_ROWS = 200

/** The first page begins at an offset, each further page after the last row of the page before. */
export type Page<Row> = { limit: number; offset: number; after: Row | undefined }

/** Reads `limit` rows from `offset` on, each page on demand; no page is empty. */
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

/**
 * Refuses pages with a row whose MAC is not the tenant's. A rotation of the store key may renew the key of the MACs
 * between two pages: a page that is not authentic is read again if there is a newer key. @throws TamperedRowError
 */
export function authenticated<Row extends { tenant_id: string; mac: Uint8Array }>(
  { state, services }: Pick<Context, 'state' | 'services'>,
  mac: (rowKey: KeyObject, row: Row) => Uint8Array,
  readPage: (page: Page<Row>) => Promise<readonly Row[]>,
): (page: Page<Row>) => Promise<readonly Row[]> {
  let { rowKey } = state
  return async (page) => {
    for (;;) {
      const rows = await readPage(page)
      const faults = await mapInStretches(rows, (row) => findTampering(row, mac, rowKey))
      const fault = faults.find((found) => found !== undefined)
      if (!fault) return rows
      const newest = await performAsSystem(services, state.tenant.tenant_id, readRowKey)
      if (newest.equals(rowKey)) throw fault
      rowKey = newest
    }
  }
}

const readRowKey: Operation<KeyObject> = ({ state }) => ({ entries: [], release: () => state.rowKey })

/** An answer with one list, the member `name`, and its `count`; its pages are read while it is sent. */
export class Paged<Answer> {
  constructor(
    readonly name: string,
    readonly pages: AsyncGenerator<readonly unknown[], undefined>,
  ) {}

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
