// A worker with its client at the top of the module: all requests of the isolate share it. What is upper case is put in by the
// test that bundles this file.
import { createClient, expiringApiKey, text } from '@eaas/sdk'

const apiKey = expiringApiKey(async () => (await fetch(`${BASE_URL}/api-key`)).json())
const limits = { maxMessages: 40, cacheSize: 8 } // few, so that DEKs are made and unwrapped all the time
const eaas = createClient({ baseUrl: BASE_URL, apiKey, deks: limits, timeoutMs: 20_000 })
const users = eaas.model({
  name: 'users',
  keyId: KEY_ID,
  bind: false,
  fields: { email: text({ index: 'email_index' }) },
})

export default {
  async fetch(request) {
    const number = new URL(request.url).searchParams.get('number')
    const [first, second, row, shared] = await Promise.all([
      eaas.encrypt(`first ${number}`, { keyId: KEY_ID }),
      eaas.encrypt(`second ${number}`, { keyId: KEY_ID, dek: 'call' }),
      users.encrypt({ email: `${number}@example.org` }),
      eaas.decryptText(ENVELOPES[number % ENVELOPES.length]),
    ])
    const texts = await Promise.all([first, second].map((envelope) => eaas.decryptText(envelope)))
    const { ok } = await users.decryptMany([row])
    return new Response([...texts, ok[0]?.email, shared].join('\n'))
  },
}
