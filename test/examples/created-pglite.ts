// PGlite for the programs of pages: a copy of the database that this run of the tests created, in the page's own folder, where a page
// would have a new one in memory.
import { cpSync } from 'node:fs'
import { join } from 'node:path'
import { PGlite as Original } from '@electric-sql/pglite'
import { inject } from 'vitest'
import { createdCluster, FEW_BUFFERS } from '../support/created-cluster.js'

const created = join(await createdCluster(inject('runDir')), 'postgres')
let copies = 0

export class PGlite extends Original {
  constructor() {
    copies += 1
    const copy = join(process.cwd(), `postgres-${copies}`)
    cpSync(created, copy, { recursive: true })
    super(copy, { startParams: [...Original.defaultStartParams, ...FEW_BUFFERS] })
  }
}
