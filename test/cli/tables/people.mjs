// The module of an application, as `eaas-cli backfill` loads it: functions that are given a client, and a model with a client of its own.

import { cloakReader } from '@eaas/cli/backfill'
import { createClient, text } from '@eaas/sdk'

/** @import { Client } from '@eaas/sdk' */

/** @param {Client} eaas @param {string} keyId */
export default (eaas, keyId) => definePeople(eaas, keyId, true)

/** @param {Client} eaas @param {string} keyId */
export const strict = (eaas, keyId) => definePeople(eaas, keyId, false)

/** Finds its key by the name, without --key. @param {Client} eaas */
export const named = (eaas) =>
  eaas.model({
    name: 'people',
    key: process.env.PEOPLE_KEY ?? 'people',
    bind: ['id'],
    format: 'text',
    warn: false,
    fields: { email: text({ index: 'emailIndex', normalize: ['lowercase'] }), phone: text().nullable() },
  })

/** Without an index. @param {Client} eaas @param {string} keyId */
export const plain = (eaas, keyId) =>
  eaas.model({
    name: 'people',
    keyId,
    bind: ['id'],
    format: 'text',
    acceptPlaintext: true,
    warn: false,
    fields: { email: text(), phone: text().nullable() },
  })

const { EAAS_URL, APP_API_KEY, APP_KEY_ID } = process.env
/** Of an application that makes its own client. */
export const own =
  EAAS_URL && APP_API_KEY && APP_KEY_ID
    ? definePeople(createClient({ baseUrl: EAAS_URL, apiKey: APP_API_KEY }), APP_KEY_ID, true)
    : undefined

export const readers = { phone: cloakReader({ keys: ['k1.aesgcm256.AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8='] }) }

/** @param {Client} eaas @param {string} keyId @param {boolean} acceptPlaintext */
function definePeople(eaas, keyId, acceptPlaintext) {
  const step = process.env.PEOPLE_NORMALIZE === 'trim' ? 'trim' : 'lowercase'
  return eaas.model({
    name: process.env.PEOPLE_NAME ?? 'people',
    keyId,
    bind: ['id'],
    format: 'text',
    acceptPlaintext,
    warn: false,
    fields: { email: text({ index: 'emailIndex', normalize: [step] }), phone: text().nullable() },
  })
}
