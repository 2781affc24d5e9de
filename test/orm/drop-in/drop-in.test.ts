// An application of Prisma whose rows get encrypted values that are bound to them: what changes in it, and that it does what it did.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { PrismaPGlite } from 'pglite-prisma-adapter'
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { createClient } from '../../../packages/sdk/src/index.js'
import { createTestService } from '../../../packages/sdk/src/testing.js'
import { openCreatedCluster } from '../../support/database/created-cluster.js'
import { PRISMA } from '../../support/sources/snippets.js'
import { openShop as openEncrypted } from './after.js'
import { openShop } from './before.js'

const TABLES = `
  create table "Customer" (id serial primary key, email text not null unique, email_index text unique, phone text, city text not null);
  create table "Order" (
    id text primary key, remark text not null, total integer not null, "customerId" integer not null references "Customer"
  );`

const read = (name: string) => readFileSync(fileURLToPath(new URL(name, import.meta.url)), 'utf8')
const linesOf = (version: string) =>
  ['prisma', 'ts'].flatMap((kind) => read(`${version}.${kind}`).trimEnd().split('\n'))

/** How many lines of one text the other does not have. */
function lacking(lines: readonly string[], others: readonly string[]): number {
  const left = [...others]
  return lines.filter((line) => {
    const at = left.indexOf(line)
    if (at >= 0) left.splice(at, 1)
    return at < 0
  }).length
}

describe('an application of Prisma', () => {
  let postgres: Awaited<ReturnType<typeof openCreatedCluster>>
  beforeAll(async () => {
    postgres = await openCreatedCluster(inject('runDir'))
    await postgres.exec(TABLES)
  })
  afterAll(() => postgres.close())

  async function use(shop: Awaited<ReturnType<typeof openShop | typeof openEncrypted>>) {
    await postgres.exec('truncate "Customer", "Order" restart identity cascade')
    await shop.signUp('ada@x.org', 'London')
    await shop.signUp('ben@x.org', 'Paris')
    const { id: _, ...order } = await shop.order('ada@x.org', 'leave it at the door', 7)
    const renamed = (await shop.rename('ada@x.org', 'countess@x.org')).email
    const login = [await shop.login('countess@x.org'), await shop.login('ada@x.org')]
    await shop.setPhone('countess@x.org', '+33 1', 'Rome')
    await shop.setPhone('new@x.org', '+33 2', 'London')
    const before = await shop.inCity('London')
    const cleared = await shop.clearRemarks(10)
    const moved = await shop.move('London', 'Oslo')
    return {
      order,
      renamed,
      login,
      before,
      cleared,
      moved,
      count: await shop.count('Oslo'),
      after: await shop.inCity('Oslo'),
    }
  }

  it('does what it did, and stores no plaintext of what is encrypted', async () => {
    const plain = await openShop(new PrismaPGlite(postgres))
    const expected = await use(plain)
    await plain.close()
    const eaas = createClient(createTestService())
    const shop = await openEncrypted(new PrismaPGlite(postgres), eaas)
    expect(await use(shop)).toEqual(expected)
    const { rows } = await postgres.query(
      'select (select json_agg(c) from "Customer" c)::text || (select json_agg(o) from "Order" o)::text as all',
    )
    expect(JSON.stringify(rows)).not.toMatch(/x\.org|\+33|moved|door|cleared/)
    await shop.close()
    eaas.close()
  })
  it('has 54 lines, of which binding changes few', () => {
    const [before, after] = [linesOf('before'), linesOf('after')]
    expect(before).toHaveLength(54)
    expect([lacking(after, before), lacking(before, after)]).toEqual([10, 2])
    expect(readFileSync(`${PRISMA}/schema.prisma`, 'utf8')).toContain(read('after.prisma'))
  })
})
