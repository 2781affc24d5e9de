// What an editor shows of the SDK: rows by their members, and a description of each option.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { type Hover, readCompilerOptions, readHovers } from '../support/sources/hovers.js'
import { PRINTED, ROWS } from '../support/sources/printed-rows.js'
import { ROOT } from '../support/sources/source-files.js'

const TIMEOUT_MS = 120_000
const SDK = join(ROOT, 'packages/sdk/src')
const ENTRIES = ['index', 'adapter', 'backfill', 'broker', 'offline', 'streams', 'sync', 'testing']
const PATHS = {
  '@eaas/sdk/*': [`${SDK}/*.ts`],
  '@eaas/drizzle': [join(ROOT, 'packages/drizzle/src/index.ts')],
  '@eaas/prisma': [join(ROOT, 'packages/prisma/src/index.ts')],
}
const options = { ...readCompilerOptions(join(ROOT, 'tsconfig.json')), noUnusedLocals: false, paths: PATHS }

/** Reads what an editor shows of a program that is part of this repository while it is asked. */
function hoversOf(text: string): Map<string, Hover> {
  const folder = mkdtempSync(join(ROOT, 'test/sdk/.hovers-'))
  try {
    const file = join(folder, 'application.ts')
    writeFileSync(
      file,
      text.replaceAll(/'@eaas\/sdk(\/\w+)?'/g, (_, entry = '/index') => `'${SDK}${entry}.js'`),
    )
    return readHovers(file, options)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

describe('an editor', () => {
  it(
    'shows rows by their members, and describes the options of fields',
    () => {
      const hovers = hoversOf(ROWS)
      expect(Object.fromEntries(Object.keys(PRINTED).map((name) => [name, hovers.get(name)?.type]))).toEqual(PRINTED)
      for (const option of ['index', 'normalize', 'bits', 'name', 'keyId', 'bind', 'fields', 'indexes']) {
        expect([option, hovers.get(option)?.description]).toEqual([option, expect.stringMatching(/\w+ \w+/)])
      }
      expect(hovers.get('normalize')?.description).toMatch(/^Steps that change a value/)
    },
    TIMEOUT_MS,
  )

  it(
    'shows a model in a line for each field, and two',
    () => {
      const hovers = hoversOf(`
      import { type Client, date, number, text } from '@eaas/sdk'
      declare const eaas: Client
      const named = { name: 'users', key: 'users', bind: ['id'] } as const
      export const small = eaas.model({
        ...named,
        fields: { email: text({ index: 'email_index', normalize: ['trim', 'lowercase'] }), phone: text().nullable() },
      })
      export const large = eaas.model({
        ...named,
        fields: { a: text({ index: 'a_index' }), b: text(), c: date(), d: number(), e: text(), f: text(), g: text().optional() },
      })`)
      expect(hovers.get('small')?.type).toBe(
        'const small: Model<{ readonly email: Field<string, never, "email_index", true>; readonly phone: Field<string, null, never, true>; }, Record<never, never>, "full", "envelope", false, NoExtras>',
      )
      expect(hovers.get('small')?.lines).toBe(4)
      expect(hovers.get('large')?.lines).toBe(9)
    },
    TIMEOUT_MS,
  )

  it(
    'shows what an adapter reads by its members',
    () => {
      const hovers = hoversOf(`
      import { createClient, date, text } from '@eaas/sdk'
      import { encrypted as drizzled } from '@eaas/drizzle'
      import { encrypted as extended } from '@eaas/prisma'
      import { jsonb, integer, pgTable, text as column } from 'drizzle-orm/pg-core'
      import { drizzle } from 'drizzle-orm/postgres-js'
      import type { PrismaClient } from '${ROOT}/test/orm/prisma/client.js'
      declare const client: PrismaClient
      const table = pgTable('users', { id: integer().primaryKey(), email: jsonb().$type<string>().notNull(), email_index: column(), born: jsonb().$type<Date>() })
      const model = createClient({ baseUrl: '' }).model({ name: 'users', keyId: '', bind: ['id'], fields: { email: text({ index: 'email_index' }), born: date().nullable() } })
      export async function run() {
        const [drizzleRow] = await drizzled(drizzle({} as never, { schema: { table } }), [[table, model]]).select().from(table)
        const prismaRow = await client.$extends(extended({ User: model })).user.findFirstOrThrow({ select: { id: true, email: true, born: true } })
        const data = { id: '', email: '', city: '', born: new Date() }
        const prismaWritten = await client.$extends(extended({ User: model })).user.create({ data, select: { id: true, born: true } })
        return [drizzleRow, prismaRow, prismaWritten]
      }`)
      expect(hovers.get('drizzleRow')?.type).toBe(
        'const drizzleRow: { id: number; email: string; email_index: string | null; born: Date | null; } | undefined',
      )
      expect(hovers.get('prismaRow')?.type).toBe('const prismaRow: { id: string; email: string; born: Date | null; }')
      expect(hovers.get('prismaWritten')?.type).toBe('const prismaWritten: { id: string; born: Date | null; }')
    },
    TIMEOUT_MS,
  )
})

it(
  'every option, index and result of the public interfaces has a description',
  () => {
    const program = ts.createProgram(
      ENTRIES.map((entry) => join(SDK, `${entry}.ts`)),
      options,
    )
    const checker = program.getTypeChecker()
    const ours = ({ declarations = [] }: ts.Symbol) =>
      declarations.some((one) => one.getSourceFile().fileName.startsWith(SDK))
    const exported = ENTRIES.flatMap((entry) => {
      const source = program.getSourceFile(join(SDK, `${entry}.ts`))
      const module = source && checker.getSymbolAtLocation(source)
      return module ? checker.getExportsOfModule(module) : []
    })
    const types = new Set(
      exported.map((one) => (one.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(one) : one)).filter(ours),
    )
    const undescribed: string[] = []
    let seen = 0
    for (const symbol of types) {
      if (
        !/(Options|Index|Changes|Place)$/.test(symbol.name) ||
        !(symbol.flags & (ts.SymbolFlags.Interface | ts.SymbolFlags.TypeAlias))
      )
        continue
      const type = checker.getDeclaredTypeOfSymbol(symbol)
      for (const part of type.isUnion() ? type.types : [type]) {
        for (const member of checker.getPropertiesOfType(part).filter(ours)) {
          seen++
          if (member.getDocumentationComment(checker).length === 0) undescribed.push(`${symbol.name}.${member.name}`)
        }
      }
    }
    expect(seen).toBeGreaterThan(100)
    expect(undescribed).toEqual([])
  },
  TIMEOUT_MS,
)
