// The generated client, without the global that it leaves behind, by which others would take a module for one of CommonJS.
export { Prisma, PrismaClient } from './generated/prisma/client.js'

Reflect.deleteProperty(globalThis, '__dirname')
