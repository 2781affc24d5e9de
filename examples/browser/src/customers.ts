// All that an application does with the SDK in a page. The rest of the example is the application around it.
import { type Client, createClient, isEaasError, type PlainRow, type StoredRow, text } from '@eaas/sdk'
import type { Keys } from './api.js'

// Values are bound to the model and their field, but not to the row: the backend makes its id once the page sealed it.
// Each value is stored as one text. The index is made in the page, so no server is sent an e-mail.
const MODEL = {
  name: 'customers',
  bind: false as const,
  format: 'text' as const,
  fields: {
    name: text(),
    email: text({ index: 'email_index', normalize: ['trim', 'lowercase'] }),
    phone: text(),
    note: text(),
  },
}
// Users who may not read must search and add too: the broker gives them the index secret, but opens no row.
const modelOf = (eaas: Client, { key_id }: Keys) => eaas.model({ ...MODEL, keyId: key_id })

/** A customer as people see it. */
export type Customer = PlainRow<ReturnType<typeof modelOf>>
/** What leaves the page instead. */
export type SealedCustomer = StoredRow<ReturnType<typeof modelOf>>
/** The same, as the application keeps it. */
export type StoredCustomer = SealedCustomer & { id: number; added_by: string }

/** Opens the customers for the signed-in user. Close it when the user changes: it holds data keys. */
export function openCustomers(keys: Keys) {
  // No API key: the broker at this path has it, and asks the session who is calling.
  const eaas = createClient({ baseUrl: '/api/eaas' })
  const customers = modelOf(eaas, keys)

  return {
    /** Encrypts a customer; the e-mail's index is added. */
    seal: (customer: Customer): Promise<SealedCustomer> => customers.encrypt(customer),
    /** Makes the index to look a customer up by, since the application cannot read e-mails. */
    async index(email: string): Promise<string> {
      return (await customers.index({ email })).email_index
    },
    /** Each customer with its plaintext, or without it if the user may not read. */
    async open(rows: readonly StoredCustomer[]): Promise<{ sealed: StoredCustomer; plain: Customer | undefined }[]> {
      const { ok, failed } = await customers.decryptMany(rows)
      const [failure] = failed
      if (failure && !isRefusal(failure.error)) throw failure.error
      const plain = new Map(ok.map((row) => [row.id, row]))
      return rows.map((sealed) => ({ sealed, plain: plain.get(sealed.id) }))
    },
    /** Zeroes the data keys. */
    close: () => eaas.close(),
  }
}

function isRefusal(error: unknown): boolean {
  return isEaasError(error) && error.code === 'E_API' && error.httpStatus === 403
}
