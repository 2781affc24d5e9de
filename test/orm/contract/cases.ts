// A case of the contract, and what the cases compare.
import { expect } from 'vitest'
import { failure } from '../../../packages/sdk/src/test-support/clients.js'
import type { Lead, Orm, Post, Scene, User } from '../scene.js'

export interface Case {
  area: string
  title: string
  /** What the ORM must have. */
  needs: readonly (keyof Orm)[]
  run(scene: Scene): Promise<void>
}

/** Makes a list of cases. `area` names an area, and returns the function that adds a case of it. */
export function listCases() {
  const cases: Case[] = []
  const area = (name: string) => (title: string, needs: readonly (keyof Orm)[], run: Case['run']) => {
    cases.push({ area: name, title, needs, run })
  }
  return { cases, area }
}

/** What is read has the columns of indexes too. */
export function plain(user: User | undefined): User | undefined {
  if (!user) return undefined
  const { id, email, nick, born, prefs = null, city } = user
  return { id, email, nick, born, prefs, city }
}

export function plainPost({ id, user_id, title, likes }: Post): Post {
  return { id, user_id, title, likes }
}

/** The rows of a result, which is a row, a list of them, or what TypeORM returns of a write. */
export function rowsIn(result: unknown): unknown[] {
  return [(result as { raw?: unknown } | null)?.raw ?? result].flat()
}

/** All values in rows, also in those that are nested. */
export function valuesIn(result: unknown): unknown[] {
  if (typeof result !== 'object' || result === null) return [result]
  return Object.values(result).flatMap(valuesIn)
}

export const byId = (one: { id: string }, other: { id: string }) => (one.id < other.id ? -1 : 1)
export const sorted = (users: User[]) => users.map(plain).sort((a, b) => byId(a as User, b as User))

/** What a call returns, or `refused`, where it is refused as input. */
export async function orRefused<T>(call: Promise<T>): Promise<T | 'refused'> {
  return call.catch((error: { code?: unknown }) => {
    expect(error.code).toBe('E_INVALID_INPUT')
    return 'refused'
  })
}

/** Everything that the two tables hold, as text. */
export async function stored({ sql }: Scene): Promise<string> {
  const [row] =
    await sql`select (select json_agg(users) from users)::text || coalesce((select json_agg(posts) from posts)::text, '') as all`
  return String(row?.all)
}

export async function refused(call: Promise<unknown>, message: RegExp): Promise<void> {
  const error = await failure(call)
  expect(error.code).toBe('E_INVALID_INPUT')
  expect(error.message).toMatch(message)
}

/** The lead as the models alone open it, and whether its index is the one of its fields. */
export async function readLead({ sql, models }: Scene, table: 'leads' | 'pairs', { id }: Lead) {
  const [row] = await sql.unsafe(`select * from ${table} where id = $1`, [id])
  if (table === 'leads') return models.leads.decrypt(row as never)
  const { mail, note } = (await models.pairs.decrypt(row as never)) as unknown as Lead
  const made = note === null ? { pair_index: null } : await models.pairs.index({ mail, note })
  expect(row).toMatchObject(made)
  return { id, mail, note }
}
