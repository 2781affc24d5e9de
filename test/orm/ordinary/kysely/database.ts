// The tables of an application of Kysely, of ordinary columns.
import type { Generated, JSONColumnType } from 'kysely'

export interface Prefs {
  theme?: string
  tags: (number | null)[]
}

export interface People {
  id: Generated<number>
  email: string
  born: Date | null
  seen: Date
  day: Date | null
  visits: number
  active: boolean | null
  prefs: JSONColumnType<Prefs | null>
}

export interface Database {
  citizens: People
}
