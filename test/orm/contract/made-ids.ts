// Ids that the database or the client makes.
import { expect } from 'vitest'
import { type Case, listCases } from './cases.js'

const { cases, area } = listCases()

const ids = area('ids that the database or the client makes')
const tablesOf = ['tickets', 'drafts', 'locals'] as const
for (const table of tablesOf) {
  ids(`seals new ${table} to them, and never stores one unsealed`, ['insertMade', 'made'], async ({ orm }) => {
    const made = await orm.insertMade(table, ['one', 'two', 'three'])
    expect(new Set(made.map(({ id }) => id)).size).toBe(3)
    expect(made.map(({ label }) => label)).toEqual(['one', 'two', 'three'])
    const [more] = await orm.insertMade(table, ['four'])
    const all = [...made, more].map((row) => ({ id: row?.id, label: row?.label }))
    const stored = (await orm.made(table)).map(({ id, label }) => ({ id, label }))
    expect(stored).toHaveLength(4)
    expect(stored).toEqual(expect.arrayContaining(all))
  })
  ids(`inserts or changes ${table} by another unique field`, ['upsertMade', 'made'], async ({ orm }) => {
    await orm.upsertMade(table, 'first', 'unused')
    const [before] = await orm.made(table)
    await orm.upsertMade(table, 'first', 'second')
    await orm.upsertMade(table, 'first', 'unused')
    const after = await orm.made(table)
    expect(after.map(({ label }) => label).sort()).toEqual(['first', 'second'])
    expect(after.find(({ label }) => label === 'second')?.id).toEqual(before?.id)
  })
}

export const madeIdCases: readonly Case[] = cases
