// docs/threat-model.md: every answer is held by tests that exist, under the titles in threat-model.json.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ROOT } from '../support/sources/source-files.js'
import { hasTest } from '../support/sources/test-titles.js'

const OUTCOMES = ['Prevented', 'Noticed at once', 'Noticed later', 'Never']
const ATTACKERS = [
  'Stranger',
  'Database administrator',
  'Operator',
  'Backup thief',
  'Stolen API key',
  'Attacker in the page',
  'Lying server',
]
const DEEDS = [
  'read plaintext',
  'read data keys',
  'use a key',
  'grant a right',
  'hide a use',
  'rewrite the log',
  'go back in time',
  'delete a tenant',
  'deny service',
]
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')

/** The titles of the tests that hold an answer, by the name of what holds it and by their file. */
const tests: Record<string, Record<string, string[]>> = JSON.parse(read('test/repo/threat-model.json'))

interface Answer {
  who: string
  deeds: string[]
  /** One of OUTCOMES, in bold at the beginning of the answer. */
  outcome: string
  heldBy: string[]
}

const sections = read('docs/threat-model.md').split(/^## /m).slice(1)
const holders = cellsOf(sectionOf('How it is held')).map(([name = '']) => name)
const answers: Answer[] = sections
  .filter((section) => section.includes('| held by |'))
  .flatMap((section) =>
    cellsOf(section).map(([deeds = '', answer = '', heldBy = '']) => ({
      who: section.split('\n')[0] ?? '',
      deeds: deeds.split(', '),
      outcome: /^\*\*([^.*]+)/.exec(answer)?.[1] ?? answer,
      heldBy: heldBy === '–' ? [] : heldBy.split(', '),
    })),
  )

function sectionOf(title: string): string {
  return sections.find((section) => section.startsWith(`${title}\n`)) ?? ''
}

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

/** The deeds that the table of an attacker answers, in the order of DEEDS; "everything else" stands for those without a line. */
function deedsOf(who: string): string[] {
  const deeds = answers.filter((answer) => answer.who === who).flatMap((answer) => answer.deeds)
  const others = DEEDS.filter((deed) => !deeds.includes(deed))
  return deeds.flatMap((deed) => (deed === 'everything else' ? others : [deed])).sort()
}

describe('the threat model', () => {
  it('has a table for each of seven attackers, which answers each of nine deeds once', () => {
    for (const who of ATTACKERS) expect(deedsOf(who), who).toEqual([...DEEDS].sort())
  })

  it('begins each answer with an outcome', () => {
    expect(answers.filter(({ outcome }) => !OUTCOMES.includes(outcome))).toEqual([])
  })

  it('names what holds each answer, unless nothing is claimed', () => {
    expect(answers.filter(({ outcome, heldBy }) => outcome !== 'Never' && heldBy.length === 0)).toEqual([])
  })

  it('explains each name that it uses, and uses each that it explains', () => {
    expect([...new Set(answers.flatMap(({ heldBy }) => heldBy))].sort()).toEqual(holders.toSorted())
  })

  it('has files of tests for each name, and titles for each file', () => {
    expect(holders).toEqual(Object.keys(tests))
    for (const [name, files] of Object.entries(tests)) expect(Object.keys(files).length, name).toBeGreaterThan(0)
    for (const files of Object.values(tests))
      for (const [path, titles] of Object.entries(files)) expect(titles.length, path).toBeGreaterThan(0)
  })

  it('is held by tests that exist', () => {
    const all = Object.values(tests).flatMap((files) =>
      Object.entries(files).flatMap(([path, titles]) => titles.map((title) => ({ path, title }))),
    )
    expect(all.length).toBeGreaterThan(140)
    expect(all.filter(({ path, title }) => !existsSync(join(ROOT, path)) || !hasTest(read(path), title))).toEqual([])
  })

  it('would miss a test that was renamed', () => {
    expect(hasTest("it('refuses a key', async () => {", 'refuses a key')).toBe(true)
    expect(hasTest("it.each(CASES)(\n    'refuses $name',", 'refuses $name')).toBe(true)
    expect(hasTest("  it.each([\n    [1],\n  ])(\n    'refuses %d keys',", 'refuses %d keys')).toBe(true)
    expect(hasTest("it('refuses a key of another tenant', async () => {", 'refuses a key')).toBe(false)
    expect(hasTest("const name = 'refuses a key'", 'refuses a key')).toBe(false)
  })
})
