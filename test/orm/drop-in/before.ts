import type { SqlDriverAdapterFactory } from '@prisma/client/runtime/client'
import { PrismaClient } from '../prisma/client.js'

export async function openShop(adapter: SqlDriverAdapterFactory) {
  const db = new PrismaClient({ adapter })
  return {
    signUp: (email: string, city: string) => db.customer.create({ data: { email, city } }),

    order: (email: string, remark: string, total: number) =>
      db.order.create({ data: { remark, total, customer: { connect: { email } } } }),

    login: (email: string) => db.customer.findUnique({ where: { email }, select: { email: true, city: true } }),

    rename: (email: string, to: string) => db.customer.update({ where: { email }, data: { email: to } }),

    setPhone: (email: string, phone: string, city: string) =>
      db.customer.upsert({ where: { email }, create: { email, phone, city }, update: { phone } }),

    clearRemarks: (total: number) =>
      db.order.updateMany({ where: { total: { lt: total } }, data: { remark: 'cleared' } }),

    inCity: (city: string) =>
      db.customer.findMany({
        where: { city },
        orderBy: { id: 'asc' },
        select: { email: true, phone: true, orders: { select: { remark: true, total: true } } },
      }),

    move: (city: string, to: string) =>
      db.$transaction(async (tx) => {
        const { count } = await tx.customer.updateMany({ where: { city }, data: { city: to, phone: 'moved' } })
        return count
      }),

    count: (city: string) => db.customer.count({ where: { city } }),

    close: () => db.$disconnect(),
  }
}
