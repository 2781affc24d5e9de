// The tables of an application of Drizzle.
import { integer, numeric, pgSchema, pgTable, serial, text } from 'drizzle-orm/pg-core'

const shop = pgSchema('shop')

export const customers = shop.table('customers', {
  id: serial('id').primaryKey(),
  name: text('full_name').notNull(), // as they write it
  email: text('email').notNull().unique(),
  city: text('city').notNull(),
  salary: numeric('salary'),
})

export const orders = pgTable('orders', {
  id: serial('id').primaryKey(),
  customerId: integer('customer_id').notNull(),
  remark: text('remark').notNull(),
})
