// The application on Prisma 7: with the SDK and its adapter, with AWS's library by hand, or without encryption.
import { createHmac, randomBytes } from 'node:crypto'
import { encrypted } from '@eaas/prisma'
import { createClient, json, text } from '@eaas/sdk'
import { PrismaPg } from '@prisma/adapter-pg'
import { PrismaClient } from '../../../orm/prisma/client.js'
import { awsPeer } from '../peers.mjs'
import { type Application, measureApplication, type Person } from './people.js'

const { url, how, rows, eaas: service } = JSON.parse(process.argv[2] ?? '')
const eaas = createClient(service)
const db = new PrismaClient({ adapter: new PrismaPg({ connectionString: url, max: 3 }) })

function withEaas() {
  const fields = { email: text({ index: 'email_index' }), nick: text(), city: text(), prefs: json() }
  const User = eaas.model({ name: 'users', key: 'users', bind: ['id'], format: 'text', fields })
  const secret = db.$extends(encrypted({ User }))
  return {
    write: (people: Person[]) => secret.user.createMany({ data: people }),
    read: () => secret.user.findMany(),
    find: (email: string) => secret.user.findFirst({ where: { email } }),
  }
}

/** Field by field, since the library has no call for many, and an index by hand. */
function withAws() {
  const { encrypt, decrypt } = awsPeer()
  const key = randomBytes(32)
  const indexOf = (email: string) => createHmac('sha256', key).update(email).digest('base64')
  const seal = async ({ id, email, nick, city, prefs }: Person) => ({
    id,
    email: await encrypt(email),
    email_index: indexOf(email),
    nick: await encrypt(nick),
    city: await encrypt(city),
    prefs: await encrypt(JSON.stringify(prefs)),
  })
  return {
    write: async (people: Person[]) => {
      const data: Awaited<ReturnType<typeof seal>>[] = []
      for (const person of people) data.push(await seal(person))
      return db.user.createMany({ data })
    },
    read: async () => {
      const found: Person[] = []
      for (const { id, email, nick, city, prefs } of await db.user.findMany()) {
        found.push({
          id,
          email: await decrypt(email),
          nick: await decrypt(nick ?? ''),
          city: await decrypt(city),
          prefs: JSON.parse(await decrypt(prefs as string)),
        })
      }
      return found
    },
    find: (email: string) => db.user.findFirst({ where: { email_index: indexOf(email) } }),
  }
}

function withNothing() {
  return {
    write: (people: Person[]) =>
      db.user.createMany({ data: people.map((one) => ({ ...one, email_index: one.email })) }),
    read: () => db.user.findMany(),
    find: (email: string) => db.user.findFirst({ where: { email_index: email } }),
  }
}

const APPLICATIONS: Record<string, () => Omit<Application, 'clear'>> = {
  eaas: withEaas,
  aws: withAws,
  plain: withNothing,
}
const application = APPLICATIONS[how]?.()
if (!application) throw new Error(`there is no application ${how}`)
await measureApplication(rows, { ...application, clear: () => db.user.deleteMany() })
await db.$disconnect()
eaas.close()
