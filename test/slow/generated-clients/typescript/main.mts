// The calls of an application in envelope mode, by openapi-fetch with the types that openapi-typescript makes of the OpenAPI document.
import { randomBytes } from 'node:crypto'
import createClient from 'openapi-fetch'
import type { paths } from './client.mjs'

function must<Data>({ data, error }: { data?: Data; error?: unknown }): NonNullable<Data> {
  if (data === undefined || data === null) throw new Error(JSON.stringify(error))
  return data
}

const { EAAS_URL: baseUrl = '', EAAS_API_KEY: secret } = process.env
const eaas = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${secret}` } })

const key = must(await eaas.POST('/v1/keys', { body: { name: 'typescript' } }))
const params = { path: { id: key.id } }
const dek = randomBytes(32).toString('base64')
const { wrapped_key } = must(await eaas.POST('/v1/keys/{id}/wrap', { params, body: { dek } }))
const unwrapped = must(await eaas.POST('/v1/keys/{id}/unwrap', { params, body: { wrapped_key } }))
const { hash } = must(await eaas.POST('/v1/hash', { body: { key_id: key.id, value: 'ada' } }))
const { logs } = must(await eaas.GET('/v1/audit', { params: { query: { key_id: key.id, limit: 10 } } }))
const taken = await eaas.POST('/v1/keys', { body: { name: 'typescript' } })

console.log(unwrapped.dek === dek, hash.length, taken.error?.code)
for (const { action, key_version } of logs) console.log(action, key_version)
