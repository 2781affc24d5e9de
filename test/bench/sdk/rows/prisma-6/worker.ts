// The application on Prisma 6: with prisma-field-encryption, or without encryption.
import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { PrismaPg } from '@prisma/adapter-pg'
import { measureApplication, type Person } from '../people.js'

const require = createRequire(import.meta.url)
const { PrismaClient } = require('@prisma/client')
const { getDMMF } = require('@prisma/internals')
const { fieldEncryptionExtension } = require('prisma-field-encryption')

const { url, how, rows } = JSON.parse(process.argv[2] ?? '')
const plain = new PrismaClient({ adapter: new PrismaPg({ connectionString: url, max: 3 }) })
const isEncrypted = how === 'encrypted'
const encryptionKey = `k1.aesgcm256.${randomBytes(32).toString('base64url')}=`
// A client without a native engine has only a part of the model, which the extension refuses.
const dmmf = await getDMMF({ datamodel: readFileSync(new URL('schema.prisma', import.meta.url), 'utf8') })
const db = isEncrypted ? plain.$extends(fieldEncryptionExtension({ encryptionKey, dmmf })) : plain

// The extension encrypts texts alone, so the application makes one of its JSON.
const toRow = (person: Person) => ({
  ...person,
  prefs: JSON.stringify(person.prefs),
  ...(isEncrypted ? {} : { email_index: person.email }),
})
await measureApplication(rows, {
  write: (people: Person[]) => db.user.createMany({ data: people.map(toRow) }),
  read: async () =>
    (await db.user.findMany()).map((row: Person & { prefs: string }) => ({ ...row, prefs: JSON.parse(row.prefs) })),
  find: (email: string) => db.user.findFirst({ where: isEncrypted ? { email } : { email_index: email } }),
  clear: () => plain.user.deleteMany(),
})
await plain.$disconnect()
