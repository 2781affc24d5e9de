// The examples in the comments of the SDK's sources, as pages of snippets: each file is one, its lines where they were.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import * as backfill from '../../packages/cli/src/backfill.js'
import * as adapter from '../../packages/sdk/src/adapter.js'
import * as broker from '../../packages/sdk/src/broker.js'
import * as sdk from '../../packages/sdk/src/index.js'
import * as maintenance from '../../packages/sdk/src/maintenance.js'
import * as offline from '../../packages/sdk/src/offline.js'
import * as streams from '../../packages/sdk/src/streams.js'
import * as sync from '../../packages/sdk/src/sync.js'
import * as testing from '../../packages/sdk/src/testing.js'
import { programOf } from '../support/sources/snippets.js'
import { filesBelow, ROOT } from '../support/sources/source-files.js'

const SOURCES = ['packages/cli/src', 'packages/sdk/src']
const ENTRIES = {
  '@eaas/sdk': sdk,
  '@eaas/sdk/adapter': adapter,
  '@eaas/cli/backfill': backfill,
  '@eaas/sdk/broker': broker,
  '@eaas/sdk/maintenance': maintenance,
  '@eaas/sdk/offline': offline,
  '@eaas/sdk/streams': streams,
  '@eaas/sdk/sync': sync,
  '@eaas/sdk/testing': testing,
}

/** What the examples of a file take for granted, besides `eaas`, `keyId` and what the SDK exports. */
const GIVEN: Record<string, string> = {
  'adapter/sealed-table.ts': `
    import { text } from '@eaas/sdk'
    const users = eaas.model({ name: 'users', keyId, bind: false, fields: { email: text() } })`,
  'backfill/backfill.ts': `
    import { text } from '@eaas/sdk'
    declare const query: (text: string, parameters: string[]) => Promise<object[]>
    const users = eaas.model({ name: 'users', keyId, bind: false, acceptPlaintext: true, fields: { email: text({ index: 'email_index' }) } })`,
  'backfill/constrain.ts': `
    import { text } from '@eaas/sdk'
    declare const query: (text: string, parameters: string[]) => Promise<object[]>
    const users = eaas.model({ name: 'users', keyId, bind: false, fields: { email: text() } })`,
  'backfill/sealed-checks.ts': `
    import { text } from '@eaas/sdk'
    declare const connection: { query(text: string): Promise<void> }
    const users = eaas.model({ name: 'users', keyId, bind: false, fields: { email: text() } })`,
  'broker.ts': 'declare function findSession(cookie: string | null): { id: string; isDoctor: boolean } | undefined',
  'broker/node.ts': `
    import type { IncomingMessage, ServerResponse } from 'node:http'
    import type { Broker } from '@eaas/sdk/broker'
    import type { FastifyInstance } from 'fastify'
    declare const broker: Broker
    declare const app: { use(path: string, handle: (request: IncomingMessage, response: ServerResponse) => void): void }
    declare const fastify: FastifyInstance`,
  'client.ts': `
    import { text, type Envelope } from '@eaas/sdk'
    declare const users: { email: string; phone: string }[]
    declare const rows: { email: Envelope; phone: Envelope }[]`,
  'maintenance.ts': `
    import { text } from '@eaas/sdk'
    const users = eaas.model({ name: 'users', keyId, bind: false, fields: { email: text(), phone: text() } })
    const rows = await users.encryptMany([{ id: 7, email: 'ada@example.org', phone: '1' }])`,
  'models/model.ts': `
    import { text } from '@eaas/sdk'
    const users = eaas.model({ name: 'users', keyId, bind: false, fields: { email: text({ index: 'email_index' }) } })
    const rows = await users.encryptMany([{ id: 7, email: 'ada@example.org' }])
    declare function store(row: (typeof rows)[number]): Promise<void>`,
  'offline.ts': `
    import { readFile } from 'node:fs/promises'
    import type { Envelope } from '@eaas/sdk'
    const dek = createDek()
    const wrapped = { wrapped_key: 'AAAA', key_id: keyId, key_version: 1 }
    declare const row: { phone: Envelope }`,
  'resources/audit.ts': `
    import type { Entry } from '@eaas/sdk'
    declare const lastSeen: number
    declare function archive(entry: Entry): Promise<void>`,
  'streams.ts': `
    import type { FileHandle } from 'node:fs/promises'
    declare const [file, url, id, handle]: [File, string, string, FileHandle]`,
  'testing.ts': `
    import { createClient } from '@eaas/sdk'
    const service = createTestService()`,
}

export interface Examples {
  program: string
  /** How many are marked as examples, and how many of them are code. */
  marked: number
  blocks: number
}

/** The examples of each source that has some, by its path. */
export function findExamples(): Map<string, Examples> {
  const found = new Map<string, Examples>()
  for (const path of SOURCES.flatMap(filesBelow)) {
    const page = pageOf(readFileSync(join(ROOT, path), 'utf8'))
    const [marked = 0, blocks = 0] = [/^@example$/gm, /^```ts$/gm].map((mark) => page.match(mark)?.length)
    if (marked > 0) found.set(path, { program: programFor(path, page), marked, blocks })
  }
  return found
}

/** The lines of the comments alone, without their stars. */
function pageOf(source: string): string {
  return source.replaceAll(/^.*$/gm, (line) => line.match(/^ *\* ?(.*)$/)?.[1] ?? '')
}

function programFor(path: string, page: string): string {
  const given = (GIVEN[path.replace(/^packages\/\w+\/src\//, '')] ?? '').trim().replaceAll(/\n */g, '; ')
  const program = programOf(page)
  const isMissing = (name: string) =>
    new RegExp(`\\b${name}\\(`).test(program + given) && !new RegExp(`import [^;]*\\b${name}\\b`).test(given)
  const imports = Object.entries(ENTRIES).map(([entry, exported]) => {
    const names = Object.keys(exported).filter((name) => isMissing(name) && (exported === sdk || !(name in sdk)))
    return `import { ${names.join(', ')} } from '${entry}'; `
  })
  return `${imports.join('')}${given}; ${program}`
}
