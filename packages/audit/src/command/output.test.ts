// Output of more rows than a call takes arguments.
import { expect, it, vi } from 'vitest'
import { print, table } from './output.js'

it('lays out and prints a table of any length', () => {
  const write = vi.spyOn(process.stdout, 'write').mockReturnValue(true)
  try {
    const rows = Array.from({ length: 300_000 }, (_, at) => [String(at), 'x'])
    print('before', table(['ROW', 'X'], rows), 'after')
    const lines = String(write.mock.calls[0]?.[0]).split('\n')
    expect(lines.slice(0, 3)).toEqual(['before', 'ROW     X', '0       x'])
    expect(lines.slice(-3)).toEqual(['299999  x', 'after', ''])
  } finally {
    write.mockRestore()
  }
})
