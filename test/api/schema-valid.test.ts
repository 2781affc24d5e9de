// A request that fits the OpenAPI document is refused only for what is stored, never for its form; and the document takes what the server takes.
import { fillPath, INSTALLATION_ID, OPERATOR_PERMISSIONS } from '@eaas/protocol'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createApiKey } from '../../packages/server/src/core/api/api-keys.js'
import { performAsSystem } from '../../packages/server/src/core/runner/perform.js'
import { rounds } from '../support/run/rounds.js'
import { makeGround } from '../support/service/route-calls.js'
import { type Schema, type SchemaValues, schemaValues } from '../support/service/schema-values.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

const REQUESTS = rounds(40, 1_000)
const SEED = 20_261_129

/** What no schema of a request can say: it is about what is stored, about two parameters, or about bytes. The document says it in words. */
const BEYOND_FORM = [
  /^confirm: must be the key's name$/,
  /^min_unwrap_version: must be at (?:most|least) /,
  /^after_id: (?:the log ends at|there is no entry) \d+/,
  /^through_id must be greater than after_id$/,
  /^checkpoint: (?:the checkpoint was signed by another key|the checkpoint was altered)/,
  /^elements\.\d+: must be the canonical encoding of an element of ristretto255/,
  /^keys: must be at most 4096 bytes as a text in JSON/,
  /^plaintext must be at most 65536 bytes/,
  /^budgets: not for an API key that holds/, // one that held it before
]

interface Operation {
  operationId: string
  parameters?: { name: string; in: string; schema?: Schema; content?: Record<string, { schema: Schema }> }[]
  requestBody?: { content: Record<string, { schema: Schema }> }
}

let service: Service
const open: Record<'tenant' | 'operator', { document: string; caller: Caller; ids: Record<string, unknown> }> =
  {} as never
const documents: Record<
  string,
  { paths: Record<string, Record<string, Operation>>; components: { schemas: Record<string, Schema> } }
> = {}
let using: (which: 'tenant' | 'operator') => SchemaValues

beforeAll(async () => {
  service = await startService({ environment: { EAAS_OPERATOR_API: 'on' } })
  const owner = await service.createTenant({ envelope_only: false })
  const { key_id, wrapped_key, bundle, api_key_id, name } = await makeGround(owner)
  const { checkpoint } = (await owner.call('GET', '/v1/audit/checkpoint')).body
  const create = createApiKey({ name: 'all', permissions: [...OPERATOR_PERMISSIONS] })
  const operator = service.caller((await performAsSystem(service.services, INSTALLATION_ID, create)).secret)
  open.tenant = {
    document: '/openapi.json',
    caller: owner,
    ids: { ...bundle, key_id, wrapped_key, api_key_id, checkpoint, keys: key_id, confirm: name },
  }
  open.operator = { document: '/admin/openapi.json', caller: operator, ids: { id: owner.tenant.tenant_id } }
  const ajv = new Ajv2020({ strict: false })
  formats.default(ajv)
  for (const [which, { document }] of Object.entries(open)) {
    documents[which] = await (await fetch(service.url + document)).json()
    ajv.addSchema(documents[which] as object, which)
  }
  const compiled = new Map<string, ValidateFunction>()
  using = (which) => ({
    resolve: (ref) => documents[which]?.components.schemas[ref.split('/').at(-1) ?? ''] ?? {},
    fits(schema, value) {
      const text = JSON.stringify(schema).replaceAll('"$ref":"#', `"$ref":"${which}#`)
      const validate = compiled.get(text) ?? ajv.compile(JSON.parse(text) as object)
      compiled.set(text, validate)
      return validate(value)
    },
    known: Object.fromEntries(Object.entries(open[which].ids).map(([member, value]) => [member, [value]])),
  })
})
afterAll(() => service.close())

describe.each(['tenant', 'operator'] as const)('a request that fits the document: %s', (which) => {
  it('is not refused for its form', async () => {
    const { caller, ids } = open[which]
    const refused = new Map<string, string>()
    let sent = 0
    for (const [path, methods] of Object.entries(documents[which]?.paths ?? {})) {
      for (const [method, { operationId, parameters = [], requestBody }] of Object.entries(methods)) {
        const body = requestBody?.content['application/json']?.schema
        const queries = parameters.filter((each) => each.in === 'query')
        if (!body && queries.length === 0) continue
        const query = fc.record(
          Object.fromEntries(
            queries.map(({ name, schema, content }) => {
              const json = content?.['application/json']?.schema
              if (json) return [name, schemaValues(json, using(which), name).map((value) => JSON.stringify(value))]
              return [name, schemaValues(schema ?? {}, using(which), name).map(String)]
            }),
          ),
          { requiredKeys: [] },
        )
        const id = path.startsWith('/v1/api-keys') ? ids.api_key_id : (ids.key_id ?? ids.id)
        const route = fillPath(path.replaceAll(/\{(\w+)\}/g, ':$1'), { id: String(id), version: 1 })
        const requests = fc.sample(fc.tuple(query, body ? schemaValues(body, using(which)) : fc.constant(undefined)), {
          numRuns: REQUESTS,
          seed: SEED,
        })
        for (const [given, value] of requests) {
          const answer = await caller.call(
            method.toUpperCase(),
            `${route}?${new URLSearchParams(given as Record<string, string>)}`,
            value,
          )
          sent += 1
          if (answer.status !== 400 || BEYOND_FORM.some((detail) => detail.test(answer.body.detail))) continue
          refused.set(`${operationId} ${answer.body.detail}`, JSON.stringify([given, value]).slice(0, 300))
        }
      }
    }
    expect([...refused]).toEqual([])
    expect(sent).toBeGreaterThanOrEqual(REQUESTS * 3)
  })
})
