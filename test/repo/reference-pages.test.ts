// Pages that repeat a table of the sources: the calls, the permissions and the settings. `npx vitest run --project unit test/repo/reference-pages.test.ts -u` writes the first and the last again.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { PERMISSIONS } from '../../packages/protocol/src/names.js'
import { type CallRule, type OperationId, ROUTES, type RouteRow, RULES } from '../../packages/protocol/src/routes.js'
import { VARIABLES } from '../../packages/server/src/core/settings.js'
import { readGuide } from '../support/sources/server-docs.js'
import { ROOT } from '../support/sources/source-files.js'

const TABLE = /(^\|---.*\n)(?:\|.*\n)+/m
const code = (text: string) => `\`${text}\``
const RULE_OF: Readonly<Record<OperationId, CallRule>> = RULES

const callRows = Object.entries<RouteRow>(ROUTES).map(([id, { method, path, sdk }]) => {
  const { permissions } = RULE_OF[id as OperationId]
  const name = typeof sdk === 'string' ? code(`eaas.${sdk.replace('client.', '')}`) : sdk ? 'within others' : ''
  return [code(`${method} ${path}`), permissions.map(code).join(', '), name]
})
const settingRows = Object.entries(VARIABLES).map(([name, text]) => [code(name), text.replaceAll('|', '\\|')])

/** The page with these rows in place of those of its table. */
const withRows = (page: string, rows: string[][]) =>
  page.replace(TABLE, (_, head: string) => head + rows.map((row) => `| ${row.join(' | ')} |\n`).join(''))

describe('the reference pages', () => {
  it.each([
    ['docs/api.md', callRows],
    ['packages/server/docs/settings.md', settingRows],
  ])('%s has the rows of the sources', async (path, rows) => {
    expect(rows.length).toBeGreaterThan(30)
    const page = readFileSync(join(ROOT, path), 'utf8')
    await expect(withRows(page, rows)).toMatchFileSnapshot(join(ROOT, path))
  })

  it('rights-by-program.md has each permission, with the calls that need it', () => {
    const cells = [...readGuide('rights-by-program.md').matchAll(/^\| `([\w:]+)` \| [^|]+ \| ([^|]*)\|$/gm)]
    const listed = cells.map(([, name = '', calls = '']) => [
      name,
      [...calls.replaceAll(/ with `\w+`/g, '').matchAll(/`(\w+)`/g)].map(([, call]) => call).sort(),
    ])
    const needed = PERMISSIONS.map((name) => [
      name,
      Object.keys(RULES)
        .filter((id) => RULE_OF[id as OperationId].permissions.includes(name))
        .sort(),
    ])
    expect(Object.fromEntries(listed)).toEqual(Object.fromEntries(needed))
  })
})
