import { describe, expect, it } from 'vitest'
import { explainUnwritten } from './unwritten.js'

describe('a file that was not written', () => {
  it('says what is full, and that nothing was written', () => {
    const error = Object.assign(new Error('no space left on device'), { code: 'ENOSPC', syscall: 'write' })
    expect(explainUnwritten('/etc/eaas/kit.age', error)).toBe(
      '/etc/eaas/kit.age cannot be written (ENOSPC), and nothing was. Its disk is full: make room there, or name another path.',
    )
  })

  it.each([
    { code: 'ECONNREFUSED', syscall: 'connect' },
    { code: 'EPIPE', syscall: 'write' },
    { code: 'ECONNRESET', syscall: 'write' },
  ])('is not blamed for what failed while its text was made: $syscall $code', (failure) => {
    const error = Object.assign(new Error('failed'), failure)
    expect(() => explainUnwritten('/etc/eaas/kit.age', error)).toThrow(error)
  })
})
