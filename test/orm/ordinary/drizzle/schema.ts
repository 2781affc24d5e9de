// A table of an application of Drizzle, of ordinary columns.
import { boolean, date, integer, jsonb, pgTable, serial, timestamp, varchar } from 'drizzle-orm/pg-core'

export interface Prefs {
  theme?: string
  tags: (number | null)[]
}

export const citizens = pgTable('citizens', {
  id: serial().primaryKey(),
  email: varchar({ length: 255 }).notNull().unique(),
  born: timestamp({ precision: 3 }),
  seen: timestamp({ withTimezone: true }).notNull(),
  day: date(),
  visits: integer().notNull(),
  active: boolean(),
  prefs: jsonb().$type<Prefs>(),
})
