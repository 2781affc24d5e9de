import { expect, it } from 'vitest'
import { toCall } from './calls.js'

it('a call of no key is never made', () => {
  expect(() => toCall('wrap', { id: '', body: {} })).toThrow('internal error')
  expect(toCall('listKeys', {}).path).toBe('v1/keys')
})
