// The application's own API, which knows only the ciphertext of customers.
import type { SealedCustomer, StoredCustomer } from './customers.js'

/** What the page needs to know about the key; it is no secret. */
export interface Keys {
  key_id: string
}

export interface Session extends Keys {
  user: { id: string; name: string; may_read: boolean }
}

/** What a server was sent. */
export interface Seen {
  at: string
  by: 'EaaS' | 'application'
  what: string
  user: string
  body: unknown
}

export interface Live {
  seen: Seen[]
  entries: { id: number; action: string; created_at: string; actor: string; on_behalf_of: string | undefined }[]
  chain: { valid: boolean; total: number }
}

export const signIn = (user: string) => call<Session>('POST', '/api/session', { user })
export const addCustomer = (row: SealedCustomer) => call<StoredCustomer>('POST', '/api/customers', row)
export const listCustomers = (emailIndex?: string) =>
  call<StoredCustomer[]>('GET', `/api/customers${emailIndex === undefined ? '' : `?email_index=${emailIndex}`}`)

/** Calls back with what the servers saw, now and whenever there is more. */
export function watch(onLive: (live: Live) => void): void {
  new EventSource('/api/live').addEventListener('message', ({ data }) => onLive(JSON.parse(data) as Live))
}

async function call<T>(method: string, path: string, body?: unknown): Promise<T> {
  const json = { headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
  const response = await fetch(path, { method, ...(body === undefined ? {} : json) })
  if (!response.ok) throw new Error(`${method} ${path} answered ${response.status}`)
  return (await response.json()) as T
}
