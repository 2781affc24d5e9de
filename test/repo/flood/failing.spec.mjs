// A test that fails and one that passes, by which run.test.ts looks at what the runner prints.
import { expect, it } from 'vitest'

it('fails', () => {
  expect('this value').toBe('that value')
})

it('passes', () => {
  expect(1).toBe(1)
})
