// The README's table of runtimes is the list that the suites run and print: `npm run test:slow -- test/slow/runtimes.test.ts`.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { runtimeTable } from '../support/runtime-table.js'
import { ROOT } from '../support/source-files.js'

it('the table of runtimes in the README of the SDK is the list of those that the suites pass in', () => {
  const readme = readFileSync(join(ROOT, 'packages/sdk/README.md'), 'utf8')
  expect(readme.match(/^\| runtime \|.*?(?=\n\n)/ms)?.[0]).toBe(runtimeTable())
})
