// A model with a field of each kind, and a row for it.
import { boolean, bytes, type Client, date, type IndexBy, json, number, text } from '../index.js'

export interface Prefs {
  theme: 'dark' | 'light'
}

export function usersOf<T extends 'full' | 'compact' | 'compact-text' = 'full'>(
  keyId: string,
  eaas: Client,
  format: T = 'full' as T,
  index?: IndexBy,
) {
  return eaas.model({
    name: 'users',
    keyId,
    bind: false,
    format,
    index,
    fields: {
      email: text({ index: 'email_index', normalize: ['trim', 'lowercase', 'NFC'] }),
      phone: text().nullable(),
      prefs: json<Prefs>().optional(),
      avatar: bytes().optional(),
      age: number(),
      ok: boolean(),
      born: date(),
      'address.street': text({ normalize: ['lowercase'] }),
      'address.code': text({ normalize: ['digits'] }).optional(),
    },
    indexes: { place_index: { fields: ['address.street', 'address.code'], bits: 32 } },
  })
}

export const ada = {
  id: 7,
  email: 'Ada@Example.org',
  phone: null,
  prefs: { theme: 'dark' as const },
  avatar: new Uint8Array([0, 255]),
  age: -0,
  ok: false,
  born: new Date('1815-12-10T00:00:00.000Z'),
  address: { street: 'Main St', code: 'N-1', city: 'London' },
}
