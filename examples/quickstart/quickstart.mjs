import { createClient, text } from '@eaas/sdk'
import { startServer } from '../lib/server.mjs' // runs `eaas start` on an empty database

const server = startServer()
const eaas = createClient({ baseUrl: await server.listening, apiKey: await server.createTenant() })
const { id: keyId } = await eaas.keys.create({ name: 'customers' }) // its secret stays in the server

// Which fields are encrypted, and by which one a row can be found again.
// Each value is bound to the model, its field and its row: moved elsewhere, it does not open.
const customers = eaas.model({
  name: 'customers',
  keyId,
  bind: ['id'],
  fields: { email: text({ index: 'email_index' }), notes: text() },
})

// Encrypts in this process. Store the row as it is: its plaintext never left.
const row = await customers.encrypt({ id: 7, email: 'ada@example.org', notes: 'called twice' })
console.log('stored:', row)

// Search without decrypting: where email_index = …
const { email_index } = await customers.index({ email: 'ada@example.org' })
console.log('found:', email_index === row.email_index)

console.log('decrypted:', await customers.decrypt(row))

const { logs } = await eaas.audit.list() // newest first
console.log('audit log:', logs.map(({ action }) => action).join(', '))

eaas.close()
await server.stop()
