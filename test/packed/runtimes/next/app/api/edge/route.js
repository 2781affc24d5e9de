// In Next's edge runtime: a client at the top of the module and others in the handler encrypt, search and decrypt.
import { createClient, text } from '@eaas/sdk'

export const runtime = 'edge'

const connect = (engine) => createClient({ baseUrl: process.env.EAAS_URL, apiKey: process.env.EAAS_API_KEY, engine })
const atTop = connect('auto')

export async function GET() {
  const found = []
  for (const eaas of [atTop, connect('auto'), connect('web'), connect('noble')]) {
    const fields = { email: text({ index: 'email_index' }) }
    const users = eaas.model({ name: 'users', keyId: process.env.EAAS_KEY_ID, bind: ['id'], fields })
    const rows = await users.encryptMany([7, 8].map((id) => ({ id, email: `${id}@example.org` })))
    const { email_index } = await users.index({ email: '7@example.org' })
    const { ok } = await users.decryptMany(rows.filter((row) => row.email_index === email_index))
    found.push(...ok.map(({ email }) => email))
  }
  return Response.json(found)
}
