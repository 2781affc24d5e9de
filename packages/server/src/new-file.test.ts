// Files that are there whole or not at all: what is said of one that is not.
import { describe, expect, it } from 'vitest'
import { explainUnwritten } from './new-file.js'

describe('a file that was not written', () => {
  it('says what is full, and that nothing was written', () => {
    const error = Object.assign(new Error('no space left on device'), { code: 'ENOSPC', syscall: 'write' })
    expect(explainUnwritten('/etc/eaas/kit.age', error)).toBe(
      '/etc/eaas/kit.age cannot be written (ENOSPC), and nothing was. The disk of /etc/eaas is full: make room there, or name another path.',
    )
  })

  it('is not blamed for what failed while its text was made', () => {
    const error = Object.assign(new Error('refused'), { code: 'ECONNREFUSED', syscall: 'connect' })
    expect(() => explainUnwritten('/etc/eaas/kit.age', error)).toThrow(error)
  })
})
