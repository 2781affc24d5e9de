// A program whose rows editors print, and what they print. The same text compiles against the sources and the package.
export const ROWS = `
import { type Client, type PlainRow, type StoredRow, date, json, number, text } from '@eaas/sdk'

declare const eaas: Client
const users = eaas.model({
  name: 'users',
  keyId: '',
  bind: ['id'],
  fields: {
    email: text({ index: 'email_index', normalize: ['trim'], bits: 8 }),
    born: date().nullable(),
    height: number().optional(),
    prefs: json<{ dark: boolean }>().optional(),
    'address.street': text(),
    'address.code': text().optional(),
  },
  indexes: { place_index: { fields: ['address.street', 'email'] } },
})
const list = [{ id: 1, email: 'x', address: { street: 'x', city: 'y' } }]
const all = { keyId: '', fields: ['email', 'address.street'], index: { email: 'mail_index' } } as const

export async function run() {
  const sealed = await users.encrypt({ id: 7, email: 'x', born: null, address: { street: 'x', city: 'y' } })
  const opened = await users.decrypt(sealed)
  const { ok, failed } = await users.decryptMany([sealed])
  const change = await users.encryptPartial({ id: 7, email: 'x' })
  const changed = await users.decryptPartial(change)
  const query = await users.index({ email: 'x' })
  const records = await eaas.encryptMany(list, all)
  const values = await eaas.decryptMany(records, { fields: ['email', 'address.street'] })
  return [opened, ok, failed, changed, query, values]
}
export type Plain = PlainRow<typeof users>
export type Stored = StoredRow<typeof users>
`

export const PRINTED: Readonly<Record<string, string>> = {
  sealed:
    'const sealed: { id: number; email: Envelope; born: null; address: { street: Envelope; city: string; }; email_index: string; place_index: string; }',
  opened: 'const opened: { id: number; email: string; born: null; address: { street: string; city: string; }; }',
  ok: 'const ok: { id: number; email: string; born: null; address: { street: string; city: string; }; }[]',
  change: 'const change: { id: number; email: Envelope; email_index: string; }',
  changed: 'const changed: { id: number; email: string; }',
  query: 'const query: { email_index: string; }',
  records:
    'const records: { id: number; email: Envelope; address: { city: string; street: Envelope; }; mail_index: string; }[]',
  values:
    'const values: { id: number; mail_index: string; email: string; address: { city: string; street: string; }; }[]',
  Plain:
    'type Plain = { email: string; address: { street: string; code?: string | undefined; }; born: Date | null; height?: number | undefined; prefs?: { dark: boolean; } | undefined; }',
  Stored:
    'type Stored = { email: Envelope; address: { street: Envelope; code?: Envelope | undefined; }; born: Envelope | null; height?: Envelope | undefined; prefs?: Envelope | undefined; email_index: string; place_index: string; }',
}
