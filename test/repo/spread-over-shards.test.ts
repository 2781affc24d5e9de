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
      'core/store/peppers.ts', // counts the API keys of a former pepper
      'core/store/store-keys.ts', // counts what each store key seals
      'core/store/tenants.ts', // whether there is a tenant
      'guard/store/anchors.ts', // forgets all anchored heads
      'operate/store/erasure.ts', // counts destroyed versions
    ])
  })
})
