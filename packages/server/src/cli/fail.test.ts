import { afterEach, expect, it, vi } from 'vitest'
import { EmbeddedStoppedError } from '../store/embedded/stopped.js'
import { fail } from './fail.js'

afterEach(() => {
  vi.restoreAllMocks()
  process.exitCode = undefined
})

it('prints the sentence of an expected error, and the stack of a defect', () => {
  let printed = ''
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    printed += text
    return true
  })
  const stopped = new EmbeddedStoppedError('RuntimeError: aborted')
  fail(stopped)
  expect(printed).toBe(`eaas: ${stopped.message}\n`)
  expect(process.exitCode).toBe(1)
  fail(new TypeError('a defect'))
  expect(printed).toContain('fail.test.ts')
})
