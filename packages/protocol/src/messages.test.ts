// Names that look alike in a list, lines that a terminal would obey, and files that were not written.
import { describe, expect, it } from 'vitest'
import { explainUnwritten, visible, visibleLine } from './messages.js'

describe('what is hidden in a text', () => {
  it.each([
    ['a zero-width space', 'a\u200bb', 'a\\u200bb'],
    ['an override of direction', '\u202etxt.exe', '\\u202etxt.exe'],
    ['what a terminal obeys', '\u001b[2J\u009b\n', '\\u001b[2J\\u009b\\u000a'],
    ['a line separator', 'a\u2028', 'a\\u2028'],
    ['a lone surrogate', 'a\ud800', 'a\\ud800'],
    ['a tag beyond the basic plane', 'a\u{e0061}', 'a\\udb40\\udc61'],
    ['a Hangul filler', 'a\u3164', 'a\\u3164'],
    ['a variation selector', 'a\ufe0f', 'a\\ufe0f'],
    ['an empty pattern of Braille', 'a\u2800', 'a\\u2800'],
    ['a blank that does not break', 'a\u00a0b', 'a\\u00a0b'],
    ['an ideographic blank', 'a\u3000b', 'a\\u3000b'],
    ['a blank at the end', 'shop ', 'shop\\u0020'],
    ['a blank at the beginning', '  shop', '\\u0020\\u0020shop'],
    ['a second blank', 'a  b', 'a\\u0020\\u0020b'],
    ['nothing but blanks', '  ', '\\u0020\\u0020'],
  ])('is shown: %s', (_, text, shown) => {
    expect(visible(text)).toBe(shown)
    expect(visible(shown)).toBe(shown)
  })

  it.each(['Renée & Jürgen', '山田 太郎', 'שלום', '🔐', 'e\u0301', '"a\\b"', ''])('is nothing in %j', (text) => {
    expect(visible(text)).toBe(text)
  })
})

describe('a line of output', () => {
  it('keeps the blanks that lay it out', () => {
    expect(visibleLine('  a  b\u200b ')).toBe('  a  b\\u200b ')
  })

  it('of JSON keeps its meaning', () => {
    const value = { name: 'a\u200b\u{e0061}\ud800 \u00a0' }
    expect(JSON.parse(visibleLine(JSON.stringify(value)))).toEqual(value)
  })
})

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
