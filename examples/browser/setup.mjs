// What an operator does once: creates a key, and two API keys with the least rights. And some customers to begin with.
import { createClient, text } from '@eaas/sdk'

const CUSTOMERS = [
  {
    name: 'Grace Hopper',
    email: 'grace@example.org',
    phone: '+1 202 555 0100',
    note: 'Prefers to be called in the morning.',
  },
  { name: 'Alan Turing', email: 'alan@example.org', phone: '+44 20 7946 0018', note: '' },
  {
    name: 'Émilie du Châtelet',
    email: 'emilie@example.org',
    phone: '+33 1 99 00 12 34',
    note: 'Invoice to the office in Cirey.',
  },
]

/**
 * @param {string} baseUrl
 * @param {string} apiKey the tenant's first, which may do everything
 */
export async function setUp(baseUrl, apiKey) {
  const eaas = createClient({ baseUrl, apiKey })
  try {
    const { id: keyId } = await eaas.keys.create({ name: 'customers' })
    const broker = await eaas.apiKeys.create({
      name: 'broker',
      permissions: ['wrap', 'unwrap', 'audit:on_behalf_of'],
      keys: [keyId],
    })
    const auditor = await eaas.apiKeys.create({ name: 'auditor', permissions: ['audit:read'], keys: [] })
    const model = eaas.model({
      name: 'customers',
      format: 'text',
      keyId,
      bind: false,
      fields: {
        name: text(),
        email: text({ index: 'email_index', normalize: ['trim', 'lowercase'] }),
        phone: text(),
        note: text(),
      },
    })
    const customers = await model.encryptMany(CUSTOMERS)
    const keys = { key_id: keyId }
    return { keys, customers, brokerKey: broker.secret, auditorKey: auditor.secret }
  } finally {
    eaas.close()
  }
}
