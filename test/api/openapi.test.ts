// The OpenAPI document is valid, describes exactly the routes that exist, and matches what the running service accepts and answers.
import { createDecipheriv, createHmac, createSecretKey, randomUUID } from 'node:crypto'
import { METHODS } from 'node:http'
import { decodeBase64, encodeBase64, fillPath, wire, wrappedKeyAad } from '@eaas/protocol'
import { deriveBlindHashKeys, evaluateBlinded } from '@eaas/protocol/blind-hash'
import { Validator } from '@seriousme/openapi-schema-validator'
import { Ajv2020, type AnySchemaObject, type ValidateFunction } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { PROBLEMS, type ProblemCode, uuidBytes } from '../../packages/protocol/src/index.js'
import { deriveIndexSecret } from '../../packages/server/src/core/crypto/blind-index.js'
import { RESOURCES, ROUTES } from '../../packages/server/src/core/http/endpoints.js'
import { performAsSystem } from '../../packages/server/src/core/runner/perform.js'
import { updateTenant } from '../../packages/server/src/operators/tenants.js'
import { callRoute, makeGround, routesWithRules, spareCaller } from '../support/service/route-calls.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

interface Media {
  schema: AnySchemaObject
  example?: unknown
  examples?: Record<string, { $ref: string }>
}
interface Response {
  $ref?: string
  description: string
  content?: Record<string, Media>
  links?: Record<string, Link>
}
interface Link {
  operationId: string
  parameters?: Record<string, string>
  requestBody?: string
}
interface Operation {
  operationId: string
  summary: string
  description?: string
  tags: string[]
  security: Record<string, string[]>[]
  parameters?: {
    name: string
    in: string
    example?: string
    description: string
    schema?: AnySchemaObject
    content?: Record<string, Media>
  }[]
  requestBody?: { required: boolean; content: Record<string, Media> }
  responses: Record<string, Response>
}
interface Document {
  openapi: string
  paths: Record<string, Record<string, Operation>>
  components: {
    schemas: Record<string, AnySchemaObject>
    headers: { RequestId: { schema: AnySchemaObject } }
    responses: Record<string, Response>
  }
  tags: { name: string }[]
}

const JSON_TYPE = 'application/json'
const PROBLEM_TYPE = 'application/problem+json'

let service: Service
let owner: Caller
let document: Document
let ajv: Ajv2020

beforeAll(async () => {
  service = await startService()
  owner = await service.createTenant({ envelope_only: false })
  document = await (await fetch(`${service.url}/openapi.json`)).json()
  ajv = new Ajv2020({ strict: false, allErrors: true })
  formats.default(ajv)
  ajv.addSchema(document, 'openapi')
})
afterAll(() => service.close())

const operations = () =>
  Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ name: `${method.toUpperCase()} ${path}`, operation })),
  )
const documentedName = ({ method, path }: { method: string; path: string }) =>
  `${method} ${path.replaceAll(/:(\w+)/g, '{$1}')}`

function operationOf(row: { method: string; path: string }): Operation {
  const found = operations().find(({ name }) => name === documentedName(row))
  if (!found) throw new Error(`${documentedName(row)} is not in the document`)
  return found.operation
}

function rowOf(operationId: string): (typeof ROUTES)[number] {
  const row = ROUTES.find((route) => route.operationId === operationId)
  if (!row) throw new Error(`no route ${operationId}`)
  return row
}

// biome-ignore lint/suspicious/noExplicitAny: each test knows the fields of its own call
function examplesOf(operationId: string): { body: any; answer: any } {
  const operation = operationOf(rowOf(operationId))
  const body = operation.requestBody?.content[JSON_TYPE]?.example
  return { body, answer: responseOf(operation, rowOf(operationId).status).content?.[JSON_TYPE]?.example }
}

function responseOf(operation: Operation, status: number): Response {
  const response = operation.responses[status]
  if (!response) throw new Error(`${operation.operationId}: the status ${status} is not in the document`)
  return response.$ref ? (resolve(response.$ref) as Response) : response
}

function resolve(ref: string): unknown {
  if (!ref.startsWith('#/')) throw new Error(`${ref} points out of the document`)
  return ref
    .slice(2)
    .split('/')
    .reduce<unknown>((node, part) => (node as Record<string, unknown> | undefined)?.[part], document)
}

/** By the schema's text: many answers have the same one, and compiling it takes longer than anything else here. */
const compiled = new Map<string, ValidateFunction>()

function compile(schema: AnySchemaObject): ValidateFunction {
  const text = JSON.stringify(schema)
  const validate = compiled.get(text) ?? ajv.compile(rebase(schema) as AnySchemaObject)
  compiled.set(text, validate)
  return validate
}

/** Lists a value's errors under a schema of the document; empty if it fits. */
function misfits(schema: AnySchemaObject, value: unknown): string[] {
  const validate = compile(schema)
  return validate(value) ? [] : (validate.errors ?? []).map((error) => `${error.instancePath}: ${error.message}`)
}

/** Makes references point into the whole document, because a schema is compiled apart from it. */
function rebase(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(rebase)
  if (typeof node !== 'object' || node === null) return node
  return Object.fromEntries(
    Object.entries(node).map(([name, value]) => [name, name === '$ref' ? `openapi${value}` : rebase(value)]),
  )
}

/** Lists the fields of an object that its schema does not name, at any depth. A map or an open value allows every field. */
function unnamed(schema: AnySchemaObject, value: unknown, at = ''): string[] {
  const target = schema.$ref ? (resolve(schema.$ref) as AnySchemaObject) : schema
  const variants: AnySchemaObject[] = target.anyOf ?? [target]
  if (Array.isArray(value)) {
    const items = variants.find((variant) => variant.items)?.items ?? {}
    return value.flatMap((item, index) => unnamed(items, item, `${at}/${index}`))
  }
  // An object without named fields is a map.
  const properties = variants.find((variant) => Object.keys(variant.properties ?? {}).length > 0)?.properties
  if (typeof value !== 'object' || value === null || !properties) return []
  return Object.entries(value).flatMap(([name, field]) =>
    properties[name] ? unnamed(properties[name], field, `${at}/${name}`) : [`${at}/${name}`],
  )
}

/** Expects an answer that the document describes. */
function expectDocumented(operation: Operation, { status, headers, body }: Awaited<ReturnType<Caller['call']>>) {
  const { content } = responseOf(operation, status)
  const type = headers.get('content-type')?.split(';')[0] ?? ''
  expect(misfits(document.components.headers.RequestId.schema, headers.get('x-request-id'))).toEqual([])
  if (!content) {
    expect(body).toBeUndefined()
    return
  }
  expect(Object.keys(content)).toEqual([type])
  const schema = content[type]?.schema ?? {}
  expect(misfits(schema, body), `${operation.operationId} ${status}`).toEqual([])
  if (status < 300) expect(unnamed(schema, body), `${operation.operationId}: fields that the schema lacks`).toEqual([])
}

describe('the document', () => {
  it('is served to anybody, and may be kept', async () => {
    const response = await fetch(`${service.url}/openapi.json`)
    expect(response.headers.get('content-type')).toMatch(/^application\/json/)
    expect(response.headers.get('cache-control')).toMatch(/^public, max-age=\d+$/)
    expect(await response.json()).toEqual(document)
  })

  it('is valid OpenAPI 3.1', async () => {
    const result = await new Validator().validate({ ...structuredClone(document) })
    expect(result.errors ?? []).toEqual([])
    expect(result.valid).toBe(true)
    expect(document.openapi).toMatch(/^3\.1\./)
  })

  it('holds every route, and nothing that is no route', () => {
    const outside = ['/health', '/livez', '/metrics', '/openapi.json', '/readyz'].map((path) => `GET ${path}`)
    const routes = [...ROUTES.map(documentedName), ...outside]
    expect(
      operations()
        .map(({ name }) => name)
        .sort(),
    ).toEqual(routes.sort())
    expect(RESOURCES.flatMap((resource) => resource.routes)).toHaveLength(ROUTES.length)
  })

  it('has no reference that leads nowhere, and no schema that nothing uses', () => {
    const refs = [...JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g)].map(([, ref = '']) => ref)
    expect(refs.filter((ref) => resolve(ref) === undefined)).toEqual([])
    const unused = Object.keys(document.components.schemas).filter(
      (name) => !refs.includes(`#/components/schemas/${name}`),
    )
    expect(unused).toEqual([])
  })

  it('says of which type every query parameter is: a generated client writes one without a type wrongly', () => {
    const parameters = operations().flatMap(({ operation }) => operation.parameters ?? [])
    expect(parameters.length).toBeGreaterThan(10)
    const typeOf = ({ schema, content }: (typeof parameters)[number]) => (schema ?? content?.[JSON_TYPE]?.schema)?.type
    expect(parameters.filter((each) => typeOf(each) === undefined).map(({ name }) => name)).toEqual([])
  })

  it('says of each number of a query how large it may be, where more is refused', () => {
    const numbers = operations().flatMap(({ operation: { operationId, parameters = [] } }) =>
      parameters.flatMap(({ in: where, name, schema }) =>
        where === 'query' && schema?.type === 'integer' ? [[`${operationId} ${name}`, schema.maximum] as const] : [],
      ),
    )
    expect(numbers.length).toBeGreaterThan(8)
    for (const [name, maximum] of numbers)
      expect([name, maximum]).toEqual([name, name.endsWith(' limit') ? undefined : Number.MAX_SAFE_INTEGER])
  })

  it('gives every operation a unique id, a summary of its own, and a tag that is described', () => {
    const ids = operations().map(({ operation }) => operation.operationId)
    expect(new Set(ids).size).toBe(ids.length)
    for (const id of ids) expect(id).toMatch(/^[a-z]+(?:[A-Z][a-z]+)*$/)
    const summaries = operations().map(({ operation }) => operation.summary)
    expect(new Set(summaries).size).toBe(summaries.length)
    for (const { operation } of operations()) {
      expect(operation.summary).toMatch(/^[A-Z].{8,70}[^.]$/)
      expect(operation.tags).toHaveLength(1)
      expect(document.tags.map(({ name }) => name)).toContain(operation.tags[0])
    }
  })

  it.each(ROUTES.map((row) => [documentedName(row), row] as const))('%s: permissions, entry, parameters', (_, row) => {
    const operation = operationOf(row)
    expect(operation.security).toEqual([{ apiKey: [...row.permissions] }])
    for (const permission of row.permissions) expect(operation.description).toContain(`\`${permission}\``)
    if (row.action) expect(operation.description).toContain(`Writes the audit entry \`${row.action}\``)
    const names = (operation.parameters ?? []).map((parameter) => `${parameter.in} ${parameter.name}`)
    expect(names.includes('path id')).toBe(row.path.includes(':id'))
    expect(names.some((name) => name.startsWith('query '))).toBe(row.query !== undefined)
    for (const { description } of operation.parameters ?? []) expect(description).toMatch(/\w.*\.$/)
    expect(operation.requestBody !== undefined).toBe(row.body !== undefined)
  })

  it.each(ROUTES.map((row) => [documentedName(row), row] as const))('%s: its problem answers', (_, row) => {
    const operation = operationOf(row)
    const statuses = Object.keys(operation.responses).map(Number)
    const expected = [row.status, 401, 403, 500, 503]
    if (row.body) expected.push(400, 413, 415)
    if (row.query) expected.push(400)
    if (row.path.includes(':id')) expected.push(404, 414)
    expect(statuses).toEqual(expect.arrayContaining(expected))
    expect(statuses.filter((status) => status < 300)).toEqual([row.status])
    for (const status of statuses.filter((status) => status >= 400)) {
      const { content = {} } = responseOf(operation, status)
      expect(Object.keys(content)).toEqual([PROBLEM_TYPE])
      const { schema, examples = {} }: Media = content[PROBLEM_TYPE] ?? { schema: {} }
      const codes: ProblemCode[] = schema.allOf?.[1].properties.code.enum ?? []
      expect(codes.length).toBeGreaterThan(0)
      expect(Object.keys(examples)).toEqual(codes)
      for (const code of codes) {
        expect(PROBLEMS[code].status).toBe(status)
        const { value } = resolve(examples[code]?.$ref ?? '') as { value: unknown }
        expect(misfits(schema, value)).toEqual([])
      }
    }
    const codes = [...(row.problems ?? []), ...(row.serverMode ? (['E_ENVELOPE_ONLY'] as const) : [])]
    for (const code of codes) expect(responseOf(operation, PROBLEMS[code].status).description).toContain(code)
  })
})

describe('the examples of the document', () => {
  it.each(ROUTES.filter((row) => row.body).map((row) => [documentedName(row), row] as const))(
    '%s: the body fits the wire schema and the document',
    (_, row) => {
      const { schema, example } = operationOf(row).requestBody?.content[JSON_TYPE] ?? { schema: {} }
      expect(example).toBeDefined()
      expect(row.body?.safeParse(example).success).toBe(true)
      expect(misfits(schema, example)).toEqual([])
    },
  )

  it.each(ROUTES.filter((row) => row.contentType).map((row) => [documentedName(row), row] as const))(
    '%s: the answer is text of its media type',
    (_, row) => {
      const { example } = responseOf(operationOf(row), row.status).content?.[row.contentType ?? ''] ?? {}
      const lines = String(example).trimEnd().split('\n')
      expect(lines.length).toBeGreaterThan(1)
      for (const line of lines) expect(JSON.parse(line)).toBeTypeOf('object')
    },
  )

  it.each(ROUTES.filter((row) => row.answer).map((row) => [documentedName(row), row] as const))(
    '%s: the answer fits the wire schema and the document',
    (_, row) => {
      const { schema, example } = responseOf(operationOf(row), row.status).content?.[JSON_TYPE] ?? { schema: {} }
      expect(example).toBeDefined()
      expect(row.answer && wire.readAnswer(row.answer, example)).toEqual(example)
      expect(misfits(schema, example)).toEqual([])
      expect(unnamed(schema, example)).toEqual([])
    },
  )

  it('belong together: the exported key opens what the other examples wrapped and encrypted', () => {
    const [wrap, rewrap] = [examplesOf('wrap'), examplesOf('rewrap')]
    const [encrypt, decrypt] = [examplesOf('encrypt'), examplesOf('decrypt')]
    const { tenant_id, key_id, versions, hash_key_hex } = examplesOf('exportKey').answer
    const dekOf = ({ wrapped_key, key_version }: { wrapped_key: string; key_version: number }) => {
      const kek = versions.find(({ version }: { version: number }) => version === key_version)?.dek_hex ?? ''
      const token = Buffer.from(wrapped_key, 'base64').subarray(5)
      return open(Buffer.from(kek, 'hex'), token, wrappedKeyAad(tenant_id, key_id, key_version))
    }
    expect(dekOf(wrap.answer).toString('base64')).toBe(wrap.body.dek)
    expect(dekOf(rewrap.answer).toString('base64')).toBe(wrap.body.dek)
    const sealed = Buffer.concat(
      [encrypt.answer.iv, encrypt.answer.ciphertext].map((text) => Buffer.from(text, 'base64')),
    )
    expect(open(dekOf(encrypt.answer), sealed).toString()).toBe(encrypt.body.plaintext)
    expect(decrypt.body).toEqual(encrypt.answer)
    const hash = examplesOf('hash')
    const index = createHmac('sha256', Buffer.from(hash_key_hex, 'hex')).update(hash.body.value).digest('hex')
    expect(hash.answer.hash).toBe(index)
    const { body, answer } = examplesOf('indexSecret')
    const secret = deriveIndexSecret(createSecretKey(hash_key_hex, 'hex'), body.name)
    expect(Buffer.from(secret).toString('base64')).toBe(answer.secret)
    const blind = examplesOf('blindHash')
    const keys = deriveBlindHashKeys(Buffer.from(hash_key_hex, 'hex'))
    expect(Buffer.from(keys.publicKey).toString('base64')).toBe(examplesOf('getKey').answer.blind_hash_public_key)
    const { elements } = evaluateBlinded(keys, blind.body.elements.map(decodeBase64))
    expect(elements.map(encodeBase64)).toEqual(blind.answer.elements)
    expect(uuidBytes(key_id)).toHaveLength(16)
  })

  it('work on the running service, with its own ids in place of those of the examples', async () => {
    const caller = await service.createTenant({ envelope_only: false })
    const text = JSON.stringify
    let ids: [string, string][] = []
    const here = <T>(value: T): T =>
      JSON.parse(ids.reduce((body, [from, to]) => body.replaceAll(from, to), text(value))) as T
    const run = async (operationId: string, id = '') => {
      const row = rowOf(operationId)
      const { body } = examplesOf(operationId)
      const answer = await caller.call(row.method, fillPath(row.path, { id, version: 1 }), body && here(body))
      expect(answer.status, `${operationId}: ${text(answer.body)}`).toBe(row.status)
      expectDocumented(operationOf(row), answer)
      return answer.body
    }
    const key = await run('createKey')
    expect(key).toMatchObject({ name: examplesOf('createKey').answer.name, status: 'active', key_version: 1 })
    ids = [[examplesOf('createKey').answer.key_id, key.key_id]]
    const wrapped = await run('wrap', key.key_id)
    ids.push([examplesOf('wrap').answer.wrapped_key, wrapped.wrapped_key])
    expect(await run('unwrap', key.key_id)).toEqual(here(examplesOf('unwrap').answer))
    expect(await run('batch')).toEqual(here(examplesOf('batch').answer))
    await run('indexSecret', key.key_id)
    await run('hash')
    await run('blindHash')
    const bundle = await run('encrypt')
    ids.pop() // the wrapped key of the bundle is another one
    for (const field of ['ciphertext', 'wrapped_key', 'iv'])
      ids.push([examplesOf('encrypt').answer[field], bundle[field]])
    expect(await run('decrypt')).toEqual(examplesOf('decrypt').answer)
    expect(await run('rotateKey', key.key_id)).toMatchObject({ key_version: 2 })
    expect(await run('rewrap', key.key_id)).toMatchObject({ key_version: 2 })
    expect(await run('setRotation', key.key_id)).toMatchObject({ rotation: { interval_days: 90 } })
    await run('disableKey', key.key_id)
    expect(await run('destroyKey', key.key_id)).toMatchObject({ status: 'pending_destruction' })
    expect(await run('cancelDestruction', key.key_id)).toMatchObject({ status: 'disabled' })
    const apiKey = await run('createApiKey')
    const { name, permissions, expires_at, allowed_ips } = examplesOf('createApiKey').answer
    expect(apiKey).toMatchObject({ name, permissions, expires_at, allowed_ips })
    expect(await run('updateApiKey', apiKey.id)).toMatchObject({ name: examplesOf('updateApiKey').answer.name })
  })
})

describe('the links of the document', () => {
  /** A runtime expression (OpenAPI 3.1, 4.8.20.4), of the kinds that the document has. */
  function evaluate(expression: string, { id, answer }: { id: string; answer: unknown }): unknown {
    if (expression === '$request.path.id') return id
    const pointer = /^\$response\.body(?:#\/(\w+))?$/.exec(expression)
    if (!pointer) throw new Error(`${expression} is no expression that this test knows`)
    return pointer[1] === undefined ? answer : (answer as Record<string, unknown>)[pointer[1]]
  }
  const linksOf = (row: { method: string; path: string; status: number }) =>
    Object.values(responseOf(operationOf(row), row.status).links ?? {})

  it('lead from a new key and a new API key to each call by its id, and from what was sealed to what opens it', () => {
    const named = ROUTES.flatMap((row) => {
      const names = linksOf(row).map(({ operationId }) => operationId)
      return names.length > 0 ? [[row.operationId, names.sort()]] : []
    })
    const byId = (path: string) =>
      ROUTES.filter((row) => row.path.startsWith(path) && !row.path.includes(':version')).map(
        ({ operationId }) => operationId,
      )
    expect(Object.fromEntries(named)).toEqual({
      createKey: byId('/v1/keys/:id').sort(),
      createApiKey: byId('/v1/api-keys/:id').sort(),
      wrap: ['rewrap', 'unwrap'],
      rewrap: ['unwrap'],
      encrypt: ['decrypt'],
      readAuditCheckpoint: ['verifyAudit'],
    })
  })

  it('are followed by the running service: what they give is what the other call takes', async () => {
    const caller = await service.createTenant({ envelope_only: false })
    const { id } = (await caller.call('POST', '/v1/keys', { name: 'linked' })).body
    for (const row of ROUTES) {
      for (const { operationId, parameters = {}, requestBody } of linksOf(row)) {
        const body = { ...examplesOf(row.operationId).body, name: `to ${operationId}`, key_id: id }
        const wrapped = (await caller.call('POST', `/v1/keys/${id}/wrap`, examplesOf('wrap').body)).body
        const sent = row.body && { ...body, ...(row.operationId === 'rewrap' ? wrapped : {}) }
        const from = { id, answer: (await caller.call(row.method, fillPath(row.path, { id, version: 1 }), sent)).body }
        const to = rowOf(operationId)
        const query: [string, string][] = []
        let path = to.path
        for (const [name, expression] of Object.entries(parameters)) {
          const value = evaluate(expression, from)
          expect([operationId, value]).toEqual([operationId, expect.any(String)])
          if (path.includes(`:${name}`)) path = path.replace(`:${name}`, value as string)
          else query.push([name, value as string])
        }
        const given = requestBody === undefined ? examplesOf(to.operationId).body : evaluate(requestBody, from)
        const answer = await caller.call(to.method, `${path}?${new URLSearchParams(query)}`, to.body && given)
        const followed = `${row.operationId} to ${operationId}: ${answer.status}`
        // A new key is neither disabled nor to be destroyed, and did not wrap the example's data key.
        const refused = requestBody === undefined && query.length === 0 ? [400, 403, 409] : []
        expect([to.status, ...refused], followed).toContain(answer.status)
        expectDocumented(operationOf(to), answer)
      }
    }
  })
})

const isAt = (template: string, path: string) => new RegExp(`^${template.replaceAll(/\{\w+\}/g, '[^/]+')}$`).test(path)

describe('the running service', () => {
  it('answers every route as the document says, with no field that it does not name', async () => {
    for (const route of routesWithRules()) {
      const ground = await makeGround(owner)
      await route.rule.before?.(owner, route.rule.on === 'api_key' ? ground.api_key_id : ground.key_id, service)
      const answer = await callRoute(await spareCaller(owner, service), route, ground)
      expect(answer.status, `${route.name}: ${JSON.stringify(answer.body)}`).toBe(route.row.status)
      expectDocumented(operationOf(route.row), answer)
    }
  }, 120_000)

  it('refuses every route as the document says', async () => {
    const ground = await makeGround(owner)
    const powerless = (await owner.call('POST', '/v1/api-keys', { name: 'powerless', permissions: [] })).body.secret
    const unknown = '00000000-0000-4000-8000-000000000000'
    for (const route of routesWithRules()) {
      const { row } = route
      const operation = operationOf(row)
      const path = fillPath(row.path, { id: unknown, version: 1 })
      const calls: [Caller, unknown?, Record<string, string>?][] = [
        [service.caller('eaas_sk_wrong')],
        [service.caller(powerless)],
        [service.caller(powerless), undefined, { 'eaas-on-behalf-of': 'ada' }],
        [owner, undefined, { 'eaas-on-behalf-of': 'not one word' }],
      ]
      if (row.body)
        calls.push([owner, '{'], [owner, 'null'], [owner, {}], [owner, '<a/>', { 'content-type': 'text/xml' }])
      if (row.path.includes(':id')) calls.push([owner, route.rule.call(ground).body])
      for (const call of calls) {
        const [caller, body, headers] = call
        expectDocumented(operation, await caller.call(row.method, path, body, headers))
      }
      if (row.query) expectDocumented(operation, await owner.call(row.method, `${path}?limit=0&month=x`))
    }
  }, 60_000)

  it('refuses by what each operation itself looks at, as the row says, and nothing else is in the rows', async () => {
    const strict = await startService({ environment: { EAAS_DESTROY_WINDOW_DAYS: '0' } })
    try {
      const caller = await strict.createTenant({ envelope_only: false })
      const ground = await makeGround(caller)
      const gone = await makeGround(caller)
      await caller.call('DELETE', `/v1/keys/${gone.key_id}`)
      await caller.call('POST', `/v1/keys/${gone.key_id}/destroy`, { confirm: gone.name })
      await caller.call('DELETE', `/v1/api-keys/${gone.api_key_id}`)
      const missing = { ...ground, key_id: randomUUID(), api_key_id: randomUUID() }
      const found: string[] = []
      const refuse = async (
        code: ProblemCode,
        on: typeof ground,
        bodies: Record<string, Record<string, unknown>> = {},
        { by = caller, without = '' } = {},
      ) => {
        for (const route of routesWithRules()) {
          const { row, rule } = route
          // The latter refuses nothing itself, and would end the caller.
          if ([without, 'revokeSelf'].includes(row.operationId)) continue
          const given = bodies[row.operationId]
          if (Object.keys(bodies).length > 0 && !given) continue
          const { body } = rule.call(on)
          const sent = {
            ...(body as object),
            ...(body && 'key_id' in (body as object) ? { key_id: on.key_id } : {}),
            ...given,
          }
          const path = fillPath(row.path, { id: rule.on === 'api_key' ? on.api_key_id : on.key_id, version: 1 })
          const query = row.query && given ? `?${new URLSearchParams(given as Record<string, string>)}` : ''
          const answer = await by.call(row.method, path + query, row.body && sent)
          if (answer.body?.code !== code) continue
          expectDocumented(operationOf(row), answer)
          found.push(`${row.operationId} ${code}`)
        }
      }
      const forged = { wrapped_key: Buffer.alloc(65, 1).toString('base64') }
      const closed = await makeGround(caller)
      await caller.call('POST', `/v1/keys/${closed.key_id}/rotate`)
      await caller.call('PATCH', `/v1/keys/${closed.key_id}`, { min_unwrap_version: 2 })
      await refuse('E_VERSION_TOO_OLD', closed, { unwrap: {}, rewrap: {}, decrypt: {} })
      await refuse('E_STATE', ground, { destroyVersion: {} })
      await caller.call('POST', `/v1/keys/${closed.key_id}/versions/1/destroy`, { confirm: closed.name })
      await refuse('E_VERSION_DESTROYED', closed, { unwrap: {}, rewrap: {}, decrypt: {} })
      await refuse('E_NOT_FOUND', ground, { createApiKey: { keys: [randomUUID()] } })
      await refuse('E_WRAPPED_KEY', ground, { unwrap: forged, rewrap: forged })
      await refuse('E_DECRYPTION_FAILED', ground, { decrypt: { ciphertext: Buffer.alloc(40).toString('base64') } })
      await refuse('E_PLAINTEXT_TOO_LARGE', ground, { encrypt: { plaintext: 'x'.repeat(65_537) } })
      await refuse('E_NAME_TAKEN', ground, { createKey: { name: ground.name } })
      await refuse('E_NOT_FOUND', missing)
      await refuse('E_KEY_DESTROYED', gone)
      await refuse('E_STATE', ground, { destroyKey: {} }) // of a destroyed key it changes nothing
      const waiting = await makeGround(owner) // on a service with a waiting period
      await owner.call('DELETE', `/v1/keys/${waiting.key_id}`)
      await owner.call('POST', `/v1/keys/${waiting.key_id}/destroy`, { confirm: waiting.name })
      await owner.call('DELETE', `/v1/api-keys/${waiting.api_key_id}`)
      await refuse('E_STATE', waiting, {}, { by: owner, without: 'cancelDestruction' }) // which ends the waiting
      await refuse('E_STATE', ground, { cancelDestruction: {} })
      const { tenant_id } = caller.tenant
      await performAsSystem(strict.services, tenant_id, updateTenant({ monthly_encrypt_quota: 0 }))
      await refuse('E_QUOTA_EXCEEDED', ground, { encrypt: {} })
      const once = { unwrap: { per_day: 1 }, hash: { per_day: 1 } }
      const made = await caller.call('POST', '/v1/api-keys', {
        name: 'once',
        permissions: ['decrypt', 'unwrap', 'hash', 'audit:read'],
        budgets: once,
      })
      const spender = strict.caller(made.body.secret)
      for (const used of ['unwrap', 'hash']) await refuse('E_BUDGET', ground, { [used]: {} }, { by: spender })
      const search = { context: '{"row":"7"}' }
      const none = { name: 'none', permissions: ['hash', 'audit:read'], keys: [] }
      const limited = strict.caller((await caller.call('POST', '/v1/api-keys', none)).body.secret)
      await refuse('E_NOT_FOUND', ground, { listAudit: { ...search, key_id: ground.key_id } }, { by: limited })
      await refuse(
        'E_BUDGET',
        ground,
        { unwrap: {}, indexSecret: {}, decrypt: {}, hash: {}, blindHash: {}, listAudit: search },
        { by: spender },
      )
      // Limits take thousands of keys to reach (bounds.test.ts).
      const told = ROUTES.flatMap(({ problems = [], operationId }) =>
        problems.filter((code) => code !== 'E_LIMIT').map((code) => `${operationId} ${code}`),
      )
      expect([...new Set(found)].sort()).toEqual(told.sort())
    } finally {
      await strict.close()
    }
  }, 120_000)

  it('answers /health as the document says', async () => {
    const headers = { 'x-request-id': 'order-4711/attempt:2' } // which the answer repeats
    const response = await fetch(`${service.url}/health`, { headers })
    const answer = { status: response.status, headers: response.headers, body: await response.json() }
    expectDocumented(operationOf({ method: 'GET', path: '/health' }), answer)
    const { example } = responseOf(operationOf({ method: 'GET', path: '/health' }), 200).content?.[JSON_TYPE] ?? {}
    expect(misfits({ $ref: '#/components/schemas/Health' }, example)).toEqual([])
    expect(example).toMatchObject({ status: 'healthy' })
  })

  it('answers a method that the document does not list with 405 and those that it does', async () => {
    for (const path of Object.keys(document.paths)) {
      // `self` is an id of `/v1/api-keys/{id}` too, for the methods that it has there alone.
      const templates = Object.entries(document.paths).filter(([template]) => isAt(template, path.replace('{id}', 'x')))
      const methods = Object.assign({}, ...templates.map(([, operations]) => operations))
      // Node's parser refuses a method that it does not know with 400; 20.19 does not know QUERY.
      for (const method of ['PUT', 'QUERY'].filter((name) => METHODS.includes(name))) {
        const response = await fetch(service.url + path.replace('{id}', 'x'), { method })
        expect(response.status, `${method} ${path}`).toBe(405)
        const told = response.headers.get('allow')?.toLowerCase().split(', ') ?? []
        const listed = told.filter((name) => name !== 'head') // which needs no listing beside get
        expect(listed.sort().join()).toBe(Object.keys(methods).sort().join())
        await response.body?.cancel()
      }
    }
  })
})

describe('the patterns of the document', () => {
  const ID = '0b54f9a4-6f0e-4c1c-9d2a-5e7a1c3b8f60'
  const fits = (component: string, value: unknown) =>
    misfits({ $ref: `#/components/schemas/${component}` }, value).length === 0

  it('take exactly what the wire schemas take, where a function checks those', () => {
    const bytes = (length: number) => Buffer.alloc(length, 0xa7).toString('base64')
    const pairs = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, at) => [`a${at}`, 'x']))
    const cases: [string, string, unknown[]][] = [
      ['Wrap', 'dek', [bytes(32), bytes(31), bytes(33), `${bytes(32).slice(0, -2)}B=`, bytes(32).replace('=', ''), '']],
      ['Unwrap', 'wrapped_key', ['', 'QQ==', 'QR==', 'QUE=', 'QUF=', 'QUFB', 'QUF', 'Q-_B', ' QUFB', 'QUFB\n', 'QQ=']],
      [
        'CreateKey',
        'name',
        ['', 'a', 'a'.repeat(255), 'a'.repeat(256), '😀'.repeat(255), '😀'.repeat(256), 'a\0b', 'é\n'],
      ],
      ['Wrap', 'context', [{}, { a: '' }, { 'A.b_c-9': '😀'.repeat(128) }, pairs(8)]],
      ['Wrap', 'context', [null, [], 'a', { '': '' }, { 'a b': '' }, { '1': '' }, { a: 1 }, { a: 'x\0' }, pairs(9)]],
      [
        'Wrap',
        'context',
        [{ ['a'.repeat(65)]: '' }, { a: 'x'.repeat(129) }, { a: '😀'.repeat(129) }, { __proto__x: '' }],
      ],
      ['UpdateApiKey', 'keys', [[], null, [ID], [ID.toUpperCase()], ['a/*'], ['/*'], [`${'😀'.repeat(253)}/*`]]],
      ['UpdateApiKey', 'keys', [['*'], [''], ['a'], ['a/*\n'], [`${ID} `], ['\0/*'], [`${'a'.repeat(254)}/*`], [1]]],
      ['UpdateApiKey', 'keys', [Array(64).fill('a/*'), Array(65).fill('a/*')]],
      ['UpdateApiKey', 'budgets', [null, { hash: { per_day: 1 } }, { unwrap: {}, hash: { per_minute: 1 } }]],
      ['UpdateApiKey', 'budgets', [{}, { unwrap: {} }, { unwrap: {}, hash: {} }, { when_over: 'expire' }]],
      ['UpdateApiKey', 'budgets', [{ unwrap: { per_minut: 1 } }, { hash: { per_day: 0 } }, { hash: null }, []]],
    ]
    const schemas = new Map(
      ROUTES.map((row) => [operationOf(row).requestBody?.content[JSON_TYPE]?.schema.$ref, row.body]),
    )
    for (const [component, field, values] of cases) {
      const schema = schemas.get(`#/components/schemas/${component}`)
      for (const value of values) {
        const body = { [field]: value, ...(component === 'Wrap' && field !== 'dek' ? { dek: bytes(32) } : {}) }
        expect(fits(component, body), `${component} ${JSON.stringify(value)}`).toBe(schema?.safeParse(body).success)
      }
    }
  })

  it('take exactly what the queries take', () => {
    const cases: [string, string, string[]][] = [
      ['listAudit', 'key_id', [ID, ID.toUpperCase(), ID.replaceAll('-', ''), `${ID}\n`, '']],
      ['listAudit', 'actor', ['system', '', 'a\0', 'é\n']],
      [
        'listAudit',
        'on_behalf_of',
        ['ada', '~!', 'x'.repeat(255), 'x'.repeat(256), '', 'a b', 'a,b', 'é', 'a\n', '\x7f'],
      ],
      ['listKeys', 'name', ['', 'a\0b', '😀\n']],
      ['getUsage', 'month', ['2026-01', '0001-12', '0000-01', '2026-13', '2026-1', '2026-01\n', '\u0662026-01']],
    ]
    for (const [operationId, name, values] of cases) {
      const row = rowOf(operationId)
      const schema = operationOf(row).parameters?.find((parameter) => parameter.name === name)?.schema ?? {}
      for (const value of values) {
        const isTaken = row.query?.safeParse({ [name]: value }).success
        expect(misfits(schema, value).length === 0, `${name} ${JSON.stringify(value)}`).toBe(isTaken)
      }
    }
  })

  it('take a checkpoint, and no text that is none', async () => {
    const { checkpoint } = (await owner.call('GET', '/v1/audit/checkpoint')).body
    const parameters = operationOf(rowOf('verifyAudit')).parameters ?? []
    const schema = parameters.find(({ name }) => name === 'checkpoint')?.schema ?? {}
    const first = checkpoint.replace(/\n\d+\n/, '\n0\n')
    for (const text of [checkpoint, '', checkpoint.trim(), `${checkpoint}\n`, first, checkpoint.replace('v1', 'v2')]) {
      const { status } = await owner.call('GET', `/v1/audit/verify?${new URLSearchParams({ checkpoint: text })}`)
      expect([text, misfits(schema, text).length === 0]).toEqual([text, status === 200])
    }
  })
})

function open(key: Buffer, sealed: Buffer, aad: Uint8Array = new Uint8Array()): Buffer {
  const decipher = createDecipheriv('aes-256-gcm', key, sealed.subarray(0, 12))
  decipher.setAAD(aad)
  decipher.setAuthTag(sealed.subarray(-16))
  return Buffer.concat([decipher.update(sealed.subarray(12, -16)), decipher.final()])
}
