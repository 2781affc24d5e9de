// The page shows what an index of parts gives away: the numbers are those that this version has.
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { IS_SLOW_RUN } from '../support/run/rounds.js'
import { measureAll, measureAttack } from './measure.js'

const page = readFileSync(new URL('../../packages/sdk/docs/index-of-parts.md', import.meta.url), 'utf8')

it('is on the page, with the numbers measured', async () => {
  expect(page).toContain(await measureAll())
})

it('is on the page for an attacker who knows three rows, with the numbers measured', async () => {
  expect(page).toContain(await measureAttack(false))
})

it.runIf(IS_SLOW_RUN)('is on the page for such an attacker of the whole list', { timeout: 600_000 }, async () => {
  expect(page).toContain(await measureAttack(true))
})
