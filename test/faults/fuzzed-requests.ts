// Random requests made from the OpenAPI document: most are near to what an operation takes, so that they get past its first check.
import fc from 'fast-check'

// biome-ignore lint/suspicious/noExplicitAny: a JSON schema has any of its keywords
export type Schema = Record<string, any>

export interface Operation {
  /** one with `content` is sent as JSON */
  parameters?: { name: string; in: string; schema?: Schema; content?: Record<string, { schema: Schema }> }[]
  requestBody?: { content: Record<string, { schema: Schema }> }
  responses: Record<string, Response & { $ref?: string }>
}

export interface Response {
  content?: Record<string, { schema: Schema }>
}

export interface Document {
  paths: Record<string, Record<string, Operation>>
  components: { schemas: Record<string, Schema>; responses: Record<string, Response> }
}

export interface FuzzedRequest {
  /** as the document names it; undefined where the path is of none */
  operation: { path: string; method: string } | undefined
  method: string
  path: string
  headers: Record<string, string>
  body: string | undefined
}

/** What earlier answers gave. A request has `@kind:n` where the nth of them is put in when it is sent. */
export const KINDS = ['key_id', 'api_key_id', 'wrapped_key', 'bundle', 'name', 'secret', 'version'] as const
export type Kind = (typeof KINDS)[number]

/** Operations whose work grows with what is there, and those that add to it, relative to 60 of the others. */
const WEIGHTS: Record<string, number> = {
  'get /v1/audit/export': 1,
  'get /v1/audit/verify': 1,
  'post /v1/keys': 4,
  'post /v1/batch/keys': 2,
  'post /v1/api-keys': 20,
  'get /v1/keys': 10,
  'get /v1/api-keys': 10,
  'get /metrics': 4,
  'get /openapi.json': 4,
}
const NAMED: Record<string, Kind> = {
  id: 'key_id',
  key_id: 'key_id',
  wrapped_key: 'wrapped_key',
  confirm: 'name',
  actor: 'api_key_id',
}
const METHODS = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'TRACE', 'PROPFIND']
const HOSTILE = [
  ...[
    '',
    ' ',
    '\0',
    '\u2028',
    '\ud800',
    '\uffff',
    '👩‍👩‍👧',
    'a\u0301',
    '\u202e',
    '__proto__',
    'constructor',
    'toString',
    'null',
    'NaN',
  ],
  ...[
    '-1',
    '0',
    '1e3',
    '0x10',
    '1.5',
    '+5',
    '2147483648',
    '9007199254740993',
    '100000000000000000000',
    '١٢',
    'true',
    '[]',
  ],
  ...[
    "' or 1=1 --",
    '%00',
    '..%2f..%2f',
    '../../health',
    '{{7*7}}',
    '<script>',
    '\r\nx: y',
    '\u001b[31m',
    '{"a":1}',
    '==',
    'A===',
  ],
  ...[
    '2026-02-30T00:00:00Z',
    '2026-01-01T24:00:00Z',
    '2026-01-01T00:00:60Z',
    '9999-12-31T23:59:59.999Z',
    '0000-01-01T00:00:00Z',
  ],
  ...['::ffff:10.0.0.1', '010.0.0.1', '10.0.0.0/33', 'fe80::1%eth0', 'x'.repeat(256), 'x'.repeat(5_000)],
]

const known = (kind: Kind) => fc.nat(1_000).map((at) => `@${kind}:${at}`)
const odd = fc.oneof(
  { weight: 5, arbitrary: fc.constantFrom<unknown>(...HOSTILE) },
  { weight: 2, arbitrary: fc.string({ unit: 'binary', maxLength: 40 }) },
  { weight: 2, arbitrary: fc.jsonValue({ maxDepth: 2 }) },
  {
    weight: 1,
    arbitrary: fc.constantFrom<unknown>(null, true, -1, 0, 1.5, 2 ** 31, 2 ** 53, 1e300, [], {}, [[]], { op: 'wrap' }),
  },
)

/** Values of a schema, and a few others. */
function valuesOf(document: Document, schema: Schema, name = ''): fc.Arbitrary<unknown> {
  return fc.oneof({ weight: 24, arbitrary: fits(document, schema, name) }, { weight: 1, arbitrary: odd })
}

function fits(document: Document, schema: Schema, name: string): fc.Arbitrary<unknown> {
  const { $ref, anyOf, const: only, enum: members, properties } = schema
  if ($ref) {
    const component = $ref.split('/').at(-1)
    const values = valuesOf(document, document.components.schemas[component] ?? {}, name)
    return component === 'Decrypt' ? fc.oneof({ weight: 2, arbitrary: known('bundle') }, values) : values
  }
  if (only !== undefined) return fc.constant(only)
  if (members) return fc.constantFrom(...members)
  const kind = NAMED[name]
  if (kind) return fc.oneof({ weight: 20, arbitrary: known(kind) }, { weight: 1, arbitrary: fc.uuid() })
  if (anyOf) return fc.oneof(...anyOf.map((each: Schema) => fits(document, each, name)))
  if (Array.isArray(schema.type))
    return fc.oneof(...schema.type.map((type) => fits(document, { ...schema, type }, name)))
  switch (schema.type) {
    case 'object': {
      // A batch's operation has the fields of the single calls.
      const own =
        name === 'operations'
          ? ['Wrap', 'Unwrap', 'Encrypt', 'Hash'].map((each) => document.components.schemas[each])
          : []
      const all: Record<string, Schema> = Object.assign({}, ...own.map((each) => each?.properties), properties)
      const model = Object.fromEntries(
        Object.entries(all).map(([field, each]) => [field, valuesOf(document, each, field)]),
      )
      if (Object.keys(model).length === 0)
        return fc.dictionary(fc.constantFrom('model', 'row', '__proto__', 'é'), valuesOf(document, { type: 'string' }))
      const required = schema.required ?? []
      const usual = fc.record(model, { requiredKeys: required })
      return fc.oneof(
        { weight: 16, arbitrary: usual },
        { weight: 1, arbitrary: fc.record(model, { requiredKeys: [] }) },
        { weight: 1, arbitrary: fc.tuple(usual, odd).map(([value, extra]) => ({ ...value, extra })) },
      )
    }
    case 'array':
      return fc.array(valuesOf(document, schema.items, name), { maxLength: 4 })
    case 'integer':
      if (name === 'version' || name === 'key_version') return known('version')
      return fc.integer({
        min: schema.minimum ?? -10,
        max: Math.min(schema.maximum ?? 1_000, (schema.minimum ?? 0) + 1_000),
      })
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
  }
  if (name === 'dek') return fc.uint8Array({ minLength: 32, maxLength: 32 }).map(base64)
  if (name === 'keys') return fc.oneof(known('key_id'), fc.constantFrom('*', 'customers/*'))
  if (name === 'allowed_ips')
    return fc.oneof(fc.constant('127.0.0.1'), fc.ipV4(), fc.ipV6(), fc.constant('127.0.0.0/8'))
  if (schema.contentEncoding === 'base64') return fc.uint8Array({ maxLength: 40 }).map(base64)
  if (schema.format === 'date-time')
    return fc.integer({ min: -10, max: 10 }).map((days) => new Date(Date.now() + days * 86_400_000).toISOString())
  if (name === 'month') return fc.constantFrom('2026-01', '2026-11', '2026-13')
  if (name === 'name') return fc.oneof(fc.string({ minLength: 1, maxLength: 40 }), known('name'))
  return fc.string({ unit: 'grapheme', maxLength: schema.maxLength ?? 60 })
}

const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64')

/** A value as a part of a path or query: mostly escaped, and never what the client's own library refuses to send. */
const part = (value: unknown) =>
  fc.boolean().map((raw) => {
    const text = typeof value === 'string' ? value : JSON.stringify(value)
    const whole = text.isWellFormed() ? text : '%ED%A0%80'
    return /^@\w+:\d+$/.test(whole) || (raw && /^[!-"$-~]*$/.test(whole)) ? whole : encodeURIComponent(whole)
  })

const schemaOf = ({ schema, content }: NonNullable<Operation['parameters']>[number]): Schema =>
  schema ?? content?.['application/json']?.schema ?? {}
const partOf = (document: Document, schema: Schema, name: string) => valuesOf(document, schema, name).chain(part)

function bodyOf(document: Document, schema: Schema | undefined): fc.Arbitrary<string | undefined> {
  if (!schema)
    return fc.oneof({ weight: 20, arbitrary: fc.constant(undefined) }, fc.constant('{}'), fc.constant('{"a":1}'))
  const text = valuesOf(document, schema).map((value) => JSON.stringify(value))
  return fc.oneof(
    { weight: 30, arbitrary: text },
    { weight: 1, arbitrary: fc.tuple(text, fc.nat()).map(([whole, at]) => whole.slice(0, at % (whole.length + 1))) },
    { weight: 1, arbitrary: text.map((whole) => whole.replace(/^\{(?=")/, '{"__proto__":{"x":1},"name":"twice",')) },
    {
      weight: 1,
      arbitrary: fc.constantFrom(
        undefined,
        '',
        '[',
        '"',
        '\ufeff{}',
        '{"a":NaN}',
        '[{}]',
        'null',
        '{"a":"\\ud800"}',
        `${'['.repeat(99)}${']'.repeat(99)}`,
      ),
    },
  )
}

/** Who calls: an API key with every right, one that earlier answers gave, another tenant's that is gone, nobody. */
function headersOf(owner: string): fc.Arbitrary<Record<string, string>> {
  const who = fc.oneof(
    { weight: 30, arbitrary: fc.constant({ authorization: `Bearer ${owner}` }) },
    { weight: 8, arbitrary: known('secret').map((secret) => ({ authorization: `Bearer ${secret}` })) },
    {
      weight: 1,
      arbitrary: fc.constantFrom<Record<string, string>>(
        {},
        { authorization: '' },
        { authorization: 'Bearer x' },
        { authorization: `Bearer ${owner}x` },
        { authorization: `Basic ${base64(Buffer.from(owner))}` },
      ),
    },
  )
  const more = fc.oneof(
    { weight: 20, arbitrary: fc.constant({}) },
    {
      weight: 1,
      arbitrary: fc.constantFrom<Record<string, string>>(
        { 'content-type': 'text/plain' },
        { 'content-type': 'application/json; charset=utf-16' },
        { 'content-encoding': 'gzip' },
        { 'x-request-id': 'a b' },
        { traceparent: 'x' },
        { 'x-forwarded-for': '10.0.0.1' },
        { 'x-http-method-override': 'DELETE' },
        { accept: 'text/html' },
        { expect: '100-continue' },
        { 'eaas-on-behalf-of': 'ada' },
      ),
    },
  )
  return fc.tuple(who, more).map(([first, second]) => ({ ...first, ...second }))
}

/** Requests of every operation of the document, and of none. */
export function fuzzedRequests(document: Document, owner: string): fc.Arbitrary<FuzzedRequest> {
  const headers = headersOf(owner)
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { parameters = [], requestBody }]) => {
      const pieces = path.split(/(\{\w+\})/).map((piece) => {
        const name = /^\{(\w+)\}$/.exec(piece)?.[1]
        const found = parameters.find((each) => each.in === 'path' && each.name === name)
        if (!found) return fc.constant(piece)
        const kind = path.startsWith('/v1/api-keys/')
          ? known('api_key_id')
          : partOf(document, schemaOf(found), found.name)
        return fc.oneof({ weight: 16, arbitrary: kind }, { weight: 1, arbitrary: odd.chain(part) })
      })
      const queries = parameters
        .filter((each) => each.in === 'query')
        .map((each) => partOf(document, schemaOf(each), each.name).map((value) => `${each.name}=${value}`))
      const query = fc.oneof(
        {
          weight: 12,
          arbitrary: queries.length === 0 ? fc.constant([]) : fc.array(fc.oneof(...queries), { maxLength: 3 }),
        },
        { weight: 1, arbitrary: fc.constantFrom(['unknown=1'], ['limit=1', 'limit=2'], ['%'], ['__proto__=1'], ['=']) },
      )
      const schema = requestBody?.content['application/json']?.schema
      const arbitrary = fc.tuple(fc.tuple(...pieces), query, headers, bodyOf(document, schema)).map(
        ([parts, asked, sent, body]): FuzzedRequest => ({
          operation: parts.some((each, at) => at % 2 === 1 && /[/?#]/.test(each)) ? undefined : { path, method },
          method: method.toUpperCase(),
          path: parts.join('') + (asked.length > 0 ? `?${asked.join('&')}` : ''),
          headers: body === undefined ? sent : { 'content-type': 'application/json', ...sent },
          body,
        }),
      )
      return { weight: WEIGHTS[`${method} ${path}`] ?? 60, arbitrary }
    }),
  )
  const nothing = fc
    .tuple(
      fc.constantFrom(...METHODS),
      fc.array(odd.chain(part), { maxLength: 3 }),
      headers,
      bodyOf(document, { type: 'object' }),
    )
    .map(
      ([method, parts, sent, body]): FuzzedRequest => ({
        operation: undefined,
        method,
        path: `/${parts.join('/')}`,
        headers: sent,
        body,
      }),
    )
  return fc.oneof(...operations, { weight: 60, arbitrary: nothing })
}
