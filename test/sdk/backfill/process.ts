// A program that migrates a table, to be killed. It keeps how far it got in a file, prints it, and waits for a line before each further page.
import { readFile, rename, writeFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import postgres from 'postgres'
import { backfill, postgresTable } from '../../../packages/cli/src/backfill.js'
import { createClient } from '../../../packages/sdk/src/index.js'
import { peopleOf } from './people.js'

const { baseUrl, apiKey, keyId, databaseUrl, table, state } = JSON.parse(process.argv[2] ?? '{}')
const lines = createInterface(process.stdin)[Symbol.asyncIterator]()
const sql = postgres(databaseUrl, { max: 2, onnotice: () => undefined })
const eaas = createClient({ baseUrl, apiKey })
const source = postgresTable((statement, parameters) => sql.unsafe(statement, parameters), table)
await backfill(peopleOf(eaas, keyId), source, {
  batchSize: 10,
  after: await readFile(state, 'utf8').catch(() => undefined),
  onProgress: async ({ after }) => {
    if (after !== undefined) {
      await writeFile(`${state}.new`, after)
      await rename(`${state}.new`, state)
    }
    console.log(after)
    await lines.next() // at once where the input has ended
  },
})
await sql.end()
eaas.close()
