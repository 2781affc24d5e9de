// What an application of Prisma reads, as it is before and after `init`: everybody, and who has an address.
import { serialize } from 'node:v8'
import { db } from './prisma-db.js'

const select = {
  ...{ id: true, email: true, born: true, seen: true, day: true, visits: true, active: true, prefs: true },
} as const
if (process.argv.includes('write')) {
  const row = await db.citizen.findUniqueOrThrow({ where: { email: 'Ada@x.org' }, select })
  await db.citizen.create({ data: { ...row, id: 4, email: 'New@x.org', prefs: row.prefs ?? {} } })
  await db.citizen.update({ where: { id: 4 }, data: { visits: row.visits + 1, prefs: { tags: [null] } } })
}
const all = await db.citizen.findMany({ select, orderBy: { id: 'asc' } })
const found = await db.citizen.findMany({ where: { email: 'Ada@x.org' }, select: { id: true } })
process.stdout.write(serialize({ all, found }).toString('base64'))
await db.$disconnect()
