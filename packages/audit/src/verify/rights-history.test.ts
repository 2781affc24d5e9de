// Histories of rights, see chain.md 11: the logs of another program, with the fault that each is refused for.
import { describe, expect, it } from 'vitest'
import { refusedExport } from '../../../../test/support/audit/refused-export.js'
import vectors from '../formats/export.vectors.json' with { type: 'json' }
import { isAnchor, isLinks } from './read-export.js'
import { createRightsHistory } from './rights-history.js'

/** Reads the entries of an export up to the first fault. */
function findFault(file: string): { fault: string; broken_at: number } | undefined {
  const [header = '', ...lines] = file.split('\n').slice(0, -2)
  const history = createRightsHistory({ after_id: JSON.parse(header).after_id })
  let broken_at = 0
  for (const line of lines.filter((line) => !isAnchor(line) && !isLinks(line))) {
    const entry = JSON.parse(line)
    const fault = history.read(entry)
    broken_at = entry.id
    if (fault) return { fault, broken_at }
  }
  const fault = history.end()
  return fault && { fault, broken_at }
}

const refused = vectors.refuse.filter(({ fault }) => fault !== undefined)

describe('a history of rights', () => {
  it.each(vectors.valid)('is allowed: $name', ({ file }) => {
    expect(findFault(file)).toBeUndefined()
  })

  it.each(refused)('is refused at its last entry: $name', (row) => {
    const file = refusedExport(row).toString()
    const { id } = JSON.parse(file.split('\n').at(-3) ?? '')
    expect(findFault(file)).toEqual({ fault: row.fault, broken_at: id })
  })

  it('is refused for each fault, in a whole log and in a part', () => {
    expect(refused.length).toBeGreaterThan(60)
    expect(new Set(refused.map(({ fault, base }) => `${fault} ${base}`)).size).toBe(6)
  })
})
