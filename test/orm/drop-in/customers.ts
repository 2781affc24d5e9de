// The module of an application that encrypts the e-mail addresses of customers that it has already, as `eaas-cli backfill` loads it.
import { type Client, text } from '../../../packages/sdk/src/index.js'

export default function define(eaas: Client, acceptPlaintext = true) {
  return eaas.model({
    name: 'customers',
    key: 'customers',
    bind: ['id'],
    format: 'text',
    acceptPlaintext,
    warn: false,
    fields: { email: text({ index: 'email_index', normalize: ['trim', 'lowercase'] }) },
  })
}
