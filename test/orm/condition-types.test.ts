// What the compiler takes in conditions of Drizzle, Kysely and TypeORM on fields that are not text, whatever their columns are: values,
// and no texts in their place. For Prisma, prisma-types.test.ts. The functions are compiled, and never called.
import { between, eq, gte, inArray, isNull, lt } from 'drizzle-orm'
import { text as column, jsonb, pgTable, uuid } from 'drizzle-orm/pg-core'
import type { PostgresJsDatabase } from 'drizzle-orm/postgres-js'
import type { Kysely } from 'kysely'
import { Between, In, IsNull, LessThan, MoreThanOrEqual, Not, type Repository } from 'typeorm'
import { describe, expectTypeOf, it } from 'vitest'
import { encrypted, encryptedColumns } from '../../packages/drizzle/src/index.js'
import { type Client, date, json, number, text } from '../../packages/sdk/src/index.js'

interface Reading {
  id: string
  taken: Date
  level: number | null
  tree: { name: string } | null
  note: string
}
const modelOf = <T extends 'full' | 'text'>(eaas: Client, format: T) =>
  eaas.model({
    name: 'readings',
    keyId: '',
    bind: ['id'],
    format,
    fields: {
      taken: date({ index: 'taken_month', range: 'month' }),
      level: number({ index: 'level_index' }).nullable(),
      tree: json<{ name: string }>().nullable(),
      note: text({ index: 'note_index' }),
    },
  })

describe('conditions', () => {
  it('of Drizzle take values, in columns of text and of JSON', () => {
    const find = async (raw: PostgresJsDatabase, eaas: Client, since: Date) => {
      const [ofText, ofJson] = [modelOf(eaas, 'text'), modelOf(eaas, 'full')]
      const texts = pgTable('texts', (t) => ({ id: t.uuid().primaryKey(), ...encryptedColumns(t, ofText) }))
      const jsons = pgTable('jsons', {
        id: uuid().primaryKey(),
        taken: jsonb().$type<Date>().notNull(),
        level: jsonb().$type<number>(),
        tree: jsonb().$type<{ name: string }>(),
        note: jsonb().$type<string>().notNull(),
        taken_month: column(),
        level_index: column(),
        note_index: column(),
      })
      const db = encrypted(raw, [
        [texts, ofText],
        [jsons, ofJson],
      ])
      for (const { taken, level, note } of [texts, jsons] as const) {
        const conditions = [
          gte(taken, since),
          lt(taken, since),
          between(taken, since, since),
          eq(level, 7),
          eq(note, 'x'),
        ]
        conditions.push(inArray(level, [7]), isNull(level))
        // @ts-expect-error the text of a date
        conditions.push(gte(taken, '2026-01-01'))
        // @ts-expect-error the text of a number
        conditions.push(eq(level, '7'))
        // @ts-expect-error the text of a number, in a list
        conditions.push(inArray(level, ['7']))
        // @ts-expect-error a number in place of a text
        conditions.push(eq(note, 7))
      }
      const [row] = await db.select().from(texts).where(gte(texts.taken, since))
      expectTypeOf(row?.taken).toEqualTypeOf<Date | undefined>()
      // @ts-expect-error the text of a date
      await db.update(texts).set({ taken: '2026-01-01' })
      // @ts-expect-error the text of a number
      await db.insert(jsons).values({ id: '', taken: since, note: '', level: '7' })
    }
    expectTypeOf(find).toBeFunction()
  })

  it('of Kysely take values', () => {
    const find = async (db: Kysely<{ readings: Reading }>, since: Date) => {
      const all = db.selectFrom('readings').selectAll()
      const row = await all.where('taken', '>=', since).where('taken', '<', since).executeTakeFirstOrThrow()
      expectTypeOf(row.taken).toEqualTypeOf<Date>()
      await all.where('level', 'in', [7]).where('level', 'is', null).where('note', '=', 'x').execute()
      // @ts-expect-error the text of a date
      await all.where('taken', '>=', '2026-01-01').execute()
      // @ts-expect-error the text of a number
      await all.where('level', '=', '7').execute()
      // @ts-expect-error the text of a number, in a list
      await all.where('level', 'in', ['7']).execute()
      // @ts-expect-error the text of a date
      await db.updateTable('readings').set({ taken: '2026-01-01' }).execute()
    }
    expectTypeOf(find).toBeFunction()
  })

  it('of TypeORM take values', () => {
    const find = async (repository: Repository<Reading>, since: Date) => {
      const [row] = await repository.findBy({ taken: MoreThanOrEqual(since), level: In([7]), note: 'x' })
      expectTypeOf(row?.taken).toEqualTypeOf<Date | undefined>()
      await repository.findBy({ taken: Between(since, since), level: Not(IsNull()) })
      await repository.findBy([{ taken: LessThan(since) }, { level: 7 }])
      // @ts-expect-error the text of a date
      await repository.findBy({ taken: '2026-01-01' })
      // @ts-expect-error the text of a date, in an operator
      await repository.findBy({ taken: MoreThanOrEqual('2026-01-01') })
    }
    expectTypeOf(find).toBeFunction()
  })
})
