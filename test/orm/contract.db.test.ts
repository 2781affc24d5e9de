// Each adapter for an ORM passes the same cases, on the PostgreSQL of the run: without one there is nothing to pass them on. The table
// in the docs says for each area of cases whether the ORM has what they need.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { backend } from '../support/database/database.js'
import { PRISMA } from '../support/sources/snippets.js'
import { CASES } from './contract.js'
import { connectDrizzle } from './drizzle.js'
import { connectKysely } from './kysely.js'
import { connectPrisma } from './prisma.js'
import { createScene, type Models, OPERATIONS, type Orm, type UserFormat } from './scene.js'
import { connectTypeorm } from './typeorm.js'

interface Tested {
  connect(url: string, models: Models): Promise<Orm>
  /** What the ORM has nothing for. */
  lacks: readonly (keyof Orm)[]
  /** Defaults to `full`. */
  format?: UserFormat
}

const ORMS: Record<string, Tested> = {
  Drizzle: { connect: connectDrizzle, lacks: ['insertWithPosts', 'updateWithPosts'] },
  Kysely: { connect: connectKysely, lacks: ['updateWithPosts'] },
  Prisma: {
    connect: connectPrisma,
    lacks: ['updateAtOnce', 'upsertMany', 'joined', 'sameBy', 'byLowerEmail', 'byNoEmail'],
    format: 'text',
  },
  TypeORM: { connect: connectTypeorm, lacks: [] },
}

const docs = fileURLToPath(new URL('../../packages/sdk/docs', import.meta.url))

const isPassed = ({ lacks }: Tested, needs: readonly (keyof Orm)[]) => !needs.some((need) => lacks.includes(need))

describe.runIf(backend() === 'postgres').each(Object.entries(ORMS))('%s', (_, tested) => {
  let scene: Awaited<ReturnType<typeof createScene>>
  beforeAll(async () => {
    scene = await createScene(tested.connect, tested.format ?? 'full')
  })
  beforeEach(
    () =>
      scene.sql`truncate users, posts, samples, people, leads, pairs, vaults, places, tickets, drafts, locals, logs`,
  )
  afterAll(() => scene.close())

  it('has all that the contract asks for, but what it is known to lack', () => {
    expect(OPERATIONS.filter((name) => !scene.orm[name])).toEqual([...tested.lacks])
  })

  for (const { area, title, needs, run } of CASES) {
    if (isPassed(tested, needs)) it(`${area}: ${title}`, () => run(scene))
  }
})

describe('the page of ORMs', () => {
  it('has a table of what each passes', () => {
    const areas = [...new Set(CASES.map(({ area }) => area))]
    const cell = (area: string, tested: Tested) => {
      const passed = CASES.filter((one) => one.area === area).map(({ needs }) => isPassed(tested, needs))
      return passed.every(Boolean) ? 'yes' : passed.some(Boolean) ? 'in part' : 'no'
    }
    const row = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
    const table = [
      row(['', ...Object.keys(ORMS)]),
      row(['---', ...Object.keys(ORMS).map(() => '---')]),
      ...areas.map((area) => row([area, ...Object.values(ORMS).map((tested) => cell(area, tested))])),
    ].join('\n')
    const page = readFileSync(`${docs}/orms.md`, 'utf8')
    expect(page).toContain(`\n\n${table}\n\n`)
    expect(page).toContain(`All pass the same ${CASES.length} tests on a real PostgreSQL.`)
    expect(CASES.length).toBeGreaterThanOrEqual(60)
  })
})

describe('the page of Prisma', () => {
  it('has the models of the schema from which the client of the tests is generated', () => {
    const [, models = ''] = /```prisma\n([^`]*)```/.exec(readFileSync(`${docs}/prisma.md`, 'utf8')) ?? []
    expect(models).toContain('model Customer')
    expect(readFileSync(`${PRISMA}/schema.prisma`, 'utf8')).toContain(models)
  })
})
