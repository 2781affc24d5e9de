// An engine that spreads tenants over shards can carry the server's tables and statements: docs/scaling.md.
import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { sourcesBelow, taggedTemplates } from '../support/sources/source-files.js'

const MIGRATIONS = 'packages/server/migrations'
const schema = readFileSync(`${MIGRATIONS}/schema.txt`, 'utf8')
const tenantTables = [...schema.matchAll(/^column (\w+)\.tenant_id /gm)].map(([, table = '']) => table)

/** What a shard cannot do for others, and what a session would have to remember. */
const UNSHARED =
  /\b(serial|bigserial|as identity|sequence|nextval|\w*advisory\w*|notify|listen|temp(orary)? table|create (or replace )?(trigger|function|procedure))\b/i

const statements = sourcesBelow('packages/server/src').flatMap((file) =>
  ['sql', 'transaction'].flatMap((tag) =>
    taggedTemplates(file, tag).map((text) => ({ file: file.path.replace('packages/server/src/', ''), text })),
  ),
)

describe('the tables', () => {
  it.each(tenantTables)('begin each unique key of a table of tenants with the tenant: %s', (table) => {
    const keys = [...schema.matchAll(new RegExp(`^CREATE UNIQUE INDEX (\\w+) ON ${table} .*\\((\\w+)`, 'gm'))]
    const others = keys.filter(([, name, first]) => first !== 'tenant_id' && name !== 'tenants_name_key')
    expect(keys.length).toBeGreaterThan(0)
    expect(others.map(([, name]) => name)).toEqual([])
  })

  it('need no sequence, trigger or function', () => {
    const files = readdirSync(MIGRATIONS).filter((name) => name.endsWith('.sql'))
    const texts = files.map((name) => readFileSync(`${MIGRATIONS}/${name}`, 'utf8').replace(/--.*$/gm, ''))
    expect(texts.filter((text) => UNSHARED.test(text))).toEqual([])
  })
})

describe('the statements', () => {
  it('need no sequence, advisory lock, notification or temporary table', () => {
    expect(statements.length).toBeGreaterThan(100)
    expect(statements.filter(({ text }) => UNSHARED.test(text))).toEqual([])
  })

  it('name the tenant where they read or write its rows, but for those that ask about the whole installation', () => {
    const table = new RegExp(`\\b(?:from|join|update|into)\\s+(?:${tenantTables.join('|')})\\b`)
    const acrossTenants = statements.filter(
      ({ text }) => table.test(text) && !text.replace(/select[\s\S]*?from/, '').includes('tenant_id'),
    )
    expect(acrossTenants.map(({ file }) => file).sort()).toEqual([
      'core/store/store-keys.ts', // counts what each store key seals
      'core/store/tenants.ts', // whether there is a tenant
      'guard/store/anchors.ts', // forgets all anchored heads
      'operate/store/erasure.ts', // counts destroyed versions
    ])
  })

  it('name the tenant by a parameter, not by the row of another table, but for those about many tenants', () => {
    const byColumn = statements.filter(({ text }) => /\btenant_id = \w+\.tenant_id\b|\w+\}?\.tenant_id`/.test(text))
    expect([...new Set(byColumn.map(({ file }) => file))].sort()).toEqual([
      'core/store/append.ts', // to many logs, which is not used there
      'core/store/audit.ts', // the heads of many logs, with their keys
      'core/store/keys.ts', // the keys that are due
      'core/store/peppers.ts', // the peppers that no API key needs, and the API keys that need one
      'core/store/version-uses.ts', // the keys that wrap
      'guard/store/alarms.ts', // the comparison once a second
      'guard/store/anchors.ts', // the heads that an anchor covers
      'operate/store/all-rows.ts', // the rows of a backup
      'operate/store/database-settings.ts', // the logs of the future
      'operate/store/purge.ts', // whether any log has an entry between two times
      'operate/store/sealed-rows.ts', // the rows under a store key
    ])
  })

  it('name the tenant beside a hash of it, where that is not a worse plan', () => {
    const hashed = statements.filter(({ text }) => /\$\{byHash\}/.test(text))
    expect(hashed).toHaveLength(1)
    expect(hashed[0]?.text).toMatch(/^sql`tenant_id = \$\{tenant_id\} and/)
  })

  it('take a column from each part that locks', () => {
    expect(named(/\bas (?:materialized )?\(\s*select\s+from\b/)).toEqual([])
  })

  it('narrow what they join to an array, which would otherwise be read whole, and ask for no row of it by a subquery', () => {
    expect(named(new RegExp(`from\\s+unnest\\([\\s\\S]*left join (?:${tenantTables.join('|')})\\b`))).toEqual([])
    expect(named(/where tenant_id = s\.tenant_id/)).toEqual([])
  })

  it('ask in no subquery for rows that fit a row of a table without tenants, or of a page', () => {
    expect(named(/\binstance\.\w+ and|where store_key = \w+\.number/)).toEqual([])
    const ofPage = statements.filter(({ text }) => {
      const [, page] = /limit \$\{\w+\}\s*\) as (\w+)/.exec(text) ?? []
      return page !== undefined && text.includes(`= ${page}.tenant_id`)
    })
    expect(ofPage.map(({ file }) => file)).toEqual([])
  })

  it('write nothing volatile, compute no time in what they return, and move no time of a row that they write', () => {
    const writes = statements.flatMap(({ file, text }) =>
      [...text.matchAll(/(?<!for )\b(?:update|delete from|insert into)\s[\s\S]*?(?=\n {4}\)|$)/g)].map(([write]) => ({
        file,
        write,
      })),
    )
    expect(writes.length).toBeGreaterThan(40)
    const wrong = writes.filter(({ write }) =>
      /\bclock_timestamp\b|\brandom\b|_at [-+] |returning[\s\S]*\bextract\(/.test(write),
    )
    expect(wrong.map(({ file }) => file)).toEqual([])
  })
})

function named(pattern: RegExp): string[] {
  return statements.filter(({ text }) => pattern.test(text)).map(({ file }) => file)
}
