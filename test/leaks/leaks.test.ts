// The page shows what an index of parts gives away: the numbers are those that this version has.
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { measureAll } from './measure.js'

it('is on the page, with the numbers measured', async () => {
  const page = readFileSync(new URL('../../packages/sdk/docs/index-of-parts.md', import.meta.url), 'utf8')
  expect(page).toContain(await measureAll())
})
