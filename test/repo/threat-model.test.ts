// docs/threat-model.md: every outcome is held by tests that exist, and the overview says what the tables say.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ROOT } from '../support/source-files.js'

const OUTCOMES = ['prevented', 'noticed at once', 'noticed later', 'never']
const text = readFileSync(join(ROOT, 'docs/threat-model.md'), 'utf8')

interface Line {
  who: string
  deed: string
  outcome: string
  why: string
  heldBy: string
}

const [overview = '', ...sections] = text.split(/^## /m)
const lines: Line[] = sections.flatMap((section) => {
  const [who = ''] = section.split('\n')
  return cellsOf(section).map(([deed = '', outcome = '', why = '', heldBy = '']) => ({
    who,
    deed,
    outcome,
    why,
    heldBy,
  }))
})

/** The cells of a table, without its head. */
function cellsOf(part: string): string[][] {
  const rows = part.split('\n').filter((line) => line.startsWith('|'))
  return rows.slice(2).map((line) =>
    line
      .slice(1, -1)
      .split('|')
      .map((cell) => cell.trim()),
  )
}

/** The tests that a text links to: their titles as they stand in the source, and their files. */
function testsIn(part: string): { title: string; path: string }[] {
  return [...part.matchAll(/\[([^\]]+)\]\(\.\.\/([^)]+\.test\.ts)\)/g)].map(([, title = '', path = '']) => ({
    title,
    path,
  }))
}

function hasTest(source: string, title: string): boolean {
  return ["'", '"', '`'].some((quote) =>
    new RegExp(`(?:\\b(?:it|describe)\\b[^\\n]*|^ *\\]\\))\\(\\s*${quote}${escaped(title)}${quote}`, 'm').test(source),
  )
}

function escaped(title: string): string {
  return title.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')
}

describe('the threat model', () => {
  it('has a table for each of six, with the same nine lines', () => {
    const deeds = cellsOf(overview).map(([deed]) => deed)
    expect(deeds).toHaveLength(9)
    const whos = [...new Set(lines.map(({ who }) => who))]
    expect(whos).toHaveLength(6)
    for (const who of whos) expect(lines.filter((line) => line.who === who).map(({ deed }) => deed)).toEqual(deeds)
  })

  it('says in its overview what its tables say', () => {
    const whos = [...new Set(lines.map(({ who }) => who))]
    const shown = cellsOf(overview).flatMap(([deed, ...outcomes]) =>
      outcomes.map((outcome, at) => `${whos[at]}, ${deed}: ${outcome}`),
    )
    expect(shown.sort()).toEqual(lines.map(({ who, deed, outcome }) => `${who}, ${deed}: ${outcome}`).sort())
    for (const { outcome } of lines) expect(OUTCOMES).toContain(outcome)
  })

  it('links each outcome to a test, unless nothing is claimed or nothing could be done', () => {
    const unheld = lines.filter(({ heldBy }) => testsIn(heldBy).length === 0)
    const claimed = unheld.filter(({ outcome, why }) => outcome !== 'never' && !why.startsWith('Has a copy only.'))
    expect(claimed).toEqual([])
    expect(unheld.length).toBeLessThan(lines.length / 4)
  })

  it('links to tests that exist', () => {
    const tests = testsIn(text)
    expect(tests.length).toBeGreaterThan(60)
    const missing = tests.filter(({ title, path }) => !hasTest(readFileSync(join(ROOT, path), 'utf8'), title))
    expect(missing).toEqual([])
  })

  it('would miss a test that was renamed', () => {
    expect(hasTest("it('refuses a key', async () => {", 'refuses a key')).toBe(true)
    expect(hasTest("it.each(CASES)(\n    'refuses $name',", 'refuses $name')).toBe(true)
    expect(hasTest("  it.each([\n    [1],\n  ])(\n    'refuses %d keys',", 'refuses %d keys')).toBe(true)
    expect(hasTest("it('refuses a key of another tenant', async () => {", 'refuses a key')).toBe(false)
    expect(hasTest("const name = 'refuses a key'", 'refuses a key')).toBe(false)
  })
})
