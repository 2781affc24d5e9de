// The page's table of runtimes is the list that the suites run and print: `npm run test:slow -- test/slow/runtimes.test.ts`.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { runtimeTable } from '../support/sources/runtime-table.js'
import { ROOT } from '../support/sources/source-files.js'

it('the table of runtimes.md is the list of those that the suites pass in', () => {
  const page = readFileSync(join(ROOT, 'packages/sdk/docs/runtimes.md'), 'utf8')
  expect(page.match(/^\| runtime \|.*?(?=\n\n)/ms)?.[0]).toBe(runtimeTable())
})
