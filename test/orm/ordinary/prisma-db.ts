// The database of an application of Prisma.
import { PrismaPg } from '@prisma/adapter-pg'
import { PrismaClient } from '../prisma/client.js'

const adapter = new PrismaPg({ connectionString: process.env.DATABASE_URL })

export const db = new PrismaClient({ adapter })
