import { afterEach, expect, it, vi } from 'vitest'
import { EmbeddedStoppedError } from '../../embedded/fsync.js'
import { ChangedMeanwhileError } from '../operations/renew-tenant.js'
import { fail } from './fail.js'

afterEach(() => {
  vi.restoreAllMocks()
  process.exitCode = undefined
})

it('prints the sentence of an expected error, what to do about one of the system, and the stack of a defect', () => {
  let printed = ''
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    printed += text
    return true
  })
  const expected = [new EmbeddedStoppedError('RuntimeError: aborted'), new ChangedMeanwhileError('acme')]
  for (const error of expected) fail(error)
  expect(printed).toBe(expected.map(({ message }) => `eaas: ${message}\n`).join(''))
  expect(process.exitCode).toBe(1)
  for (const [code, advice] of [
    ['25006', 'turn default_transaction_read_only off'],
    ['55P03', 'holds a lock that this one needs.* repeat the command'],
    ['EMFILE', 'raise the limit of open files'],
  ] as const) {
    printed = ''
    fail(Object.assign(new Error(`refused (${code})`), { code }))
    expect(printed).toMatch(new RegExp(`^eaas: refused \\(${code}\\): .*${advice}.*\n$`))
  }
  fail(new TypeError('a defect'))
  expect(printed).toContain('fail.test.ts')
})
