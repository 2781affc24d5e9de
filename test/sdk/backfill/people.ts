// The model of the backfill's tests, also in the process that is killed.
import { type Client, json, number, text } from '../../../packages/sdk/src/index.js'

export function peopleOf(eaas: Client, keyId: string, acceptPlaintext = true) {
  return eaas.model({
    name: 'people',
    keyId,
    bind: ['id'],
    format: 'text',
    warn: false,
    acceptPlaintext,
    fields: {
      email: text({ index: 'email_index', normalize: ['lowercase'] }),
      prefs: json<unknown>().nullable(),
      height: number().nullable(),
    },
  })
}
