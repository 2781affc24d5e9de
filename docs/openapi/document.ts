/** The OpenAPI 3.1 documents, generated from the tables of routes and the wire schemas. */
import {
  findMissingPermission,
  type HeldPermission,
  PERMISSIONS,
  PROBLEM_CONTENT_TYPE,
  PROBLEMS,
  type ProblemCode,
  problemDocument,
  wire,
} from '@eaas/protocol'
import * as z from 'zod/mini'
import type { ServedRoute } from '../../packages/server/src/core/api/route.js'
import { RESOURCES, ROUTES } from '../../packages/server/src/core/http/endpoints.js'
import { ALIVE, LIVE_PATH, READY_PATH } from '../../packages/server/src/core/http/open-paths.js'
import { operatorRoutes } from '../../packages/server/src/operators/operator-endpoints.js'
import * as operators from '../../packages/server/src/operators/operator-schemas.js'
import { CHECKED, type JsonSchema, OPERATOR_PROPERTIES, PARAMETERS, PROPERTIES } from './descriptions.js'
import {
  DETAIL_EXAMPLES,
  EXAMPLE_API_KEY_ID,
  EXAMPLE_EXPORT,
  EXAMPLE_KEY_ID,
  EXAMPLE_TENANT_ID,
  exampleOf,
} from './examples.js'
import { linksOf } from './links.js'
import { problemsOf } from './problems.js'

const SERVICE_TAG = 'Service'
const OPERATORS_TAG = 'Operators'
const JSON_CONTENT_TYPE = 'application/json'

const INTRODUCTION = `\
Keys for encryption, kept on a server of your own. Applications encrypt locally and have their data keys wrapped here, or let
the server encrypt. Each wrap, unwrap, encryption, decryption and change of a key is an entry in an audit log that can be verified;
hashes are only counted.

Calls carry an API key: \`Authorization: Bearer eaas_sk_…\`. Errors are problem documents (RFC 9457) with a stable \`code\`.
Besides those listed, any call may get 404 or 405 (no such route), 408, 414 or 431 (the request could not be
read). Unknown fields of a body are ignored, even misspelt ones: compare the answer, such as an API key's \`keys\` and \`allowed_ips\`, with
what you sent. A field that occurs twice gets 400. New fields may appear in answers. A call that lists query parameters refuses any other with 400; a call that lists none
ignores them. A caller may send \`X-Request-Id\` and \`traceparent\`, which then are in the answer and
in the audit entries.`

type Json = Record<string, unknown>
type Schemas = Record<string, JsonSchema>

/** The document. */
export interface OpenApiDocument extends Json {
  openapi: string
  paths: Record<string, Record<string, Json>>
  components: { schemas: Schemas } & Json
}

const OPERATORS_INTRODUCTION = `\
What operators can do without a shell on the server, if EAAS_OPERATOR_API is on: tenants, alarms and the state of the server. A proxy should
let only operators reach these paths.

Calls carry an operator's API key, which \`eaas operator-key create\` makes: \`Authorization: Bearer eaas_sk_…\`. Tenants' API keys get 401
here, and operators' get 401 everywhere else. Errors are problem documents (RFC 9457) with a stable \`code\`. Besides those listed, any
call may get 404 or 405 (no such route), 408, 414 or 431 (the request could not be read). Unknown fields of a body and unknown query
parameters get 400; new fields may appear in answers.`

function uncalled(): never {
  throw new Error('a document calls no operation')
}
const OPERATOR_ROUTES = operatorRoutes({ checkHealth: uncalled, ages: uncalled, invalidLogs: uncalled })

/** Builds the document of operators' calls. Its paths begin at /admin, where the document itself is. */
export function operatorsOpenApiDocument(): OpenApiDocument {
  const components = componentSchemas(OPERATOR_SCHEMAS, OPERATOR_PROPERTIES)
  return {
    ...head('EaaS for operators', 'Tenants and alarms', OPERATORS_INTRODUCTION),
    // Relative to this document, as in the other one.
    servers: [{ url: '..' }],
    tags: [{ name: OPERATORS_TAG, description: 'Tenants, alarms and the state of the server.' }],
    paths: describeRoutes(OPERATOR_ROUTES, OPERATORS_TAG, components, {}),
    components: sharedComponents(components, "An operator's API key, `eaas_sk_…`."),
  }
}

/** Builds the document of every route of /v1. */
export function openApiDocument(): OpenApiDocument {
  const components = componentSchemas(SCHEMAS, PROPERTIES)
  let paths: OpenApiDocument['paths'] = servicePaths(components)
  for (const { name, routes } of RESOURCES) paths = describeRoutes(routes, name, components, paths)
  return {
    ...head('EaaS', 'Encryption as a service', INTRODUCTION),
    // Relative to this document: a path prefix in front of the server is kept.
    servers: [{ url: '.' }],
    tags: [
      ...RESOURCES.map(({ name, description }) => ({ name, description })),
      { name: SERVICE_TAG, description: 'The server itself. Without authentication.' },
    ],
    paths,
    components: sharedComponents(components, 'An API key, `eaas_sk_…`.'),
  }
}

function head(title: string, summary: string, description: string) {
  return { openapi: '3.1.0', info: { title, summary, description, version: '1', license: { name: 'MIT' } } }
}

function describeRoutes(
  routes: readonly ServedRoute[],
  tag: string,
  components: Schemas,
  before: OpenApiDocument['paths'],
): OpenApiDocument['paths'] {
  const paths = { ...before }
  for (const row of routes) {
    const path = row.path.replaceAll(/:(\w+)/g, '{$1}')
    paths[path] = { ...paths[path], [row.method.toLowerCase()]: describeRoute(row, tag, components) }
  }
  return paths
}

function sharedComponents(schemas: Schemas, apiKey: string): OpenApiDocument['components'] {
  return {
    schemas,
    headers: {
      RequestId: {
        description:
          'The id under which the server logs this request: the one that the caller sent, otherwise a new UUID.',
        schema: { type: 'string', minLength: 1, maxLength: 64 },
      },
    },
    responses: { Unauthorized: unauthorized() },
    examples: problemExamples(),
    securitySchemes: { apiKey: { type: 'http', scheme: 'bearer', description: apiKey } },
  }
}

function describeRoute(row: ServedRoute, tag: string, components: Schemas): Json {
  const { operationId, summary, permissions, body } = row
  const parameters = [...pathParameters(row), ...queryParameters(row)]
  return {
    operationId,
    summary,
    description: describeEffects(row),
    tags: [tag],
    security: [{ apiKey: permissions }],
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(body ? { requestBody: requestBody(body, components) } : {}),
    responses: { [row.status]: success(row, components), ...refusals(row) },
  }
}

/** The audit entries of the routes that write several. */
const ENTRIES_OF_BATCHES: ReadonlyMap<string, string> = new Map([
  ['/v1/batch', 'Each operation writes its own audit entry; all are committed together.'],
  ['/v1/batch/keys', 'Each key that is created has its own audit entry, `key.create`; all are committed together.'],
])

function describeEffects({ permissions, action, serverMode, path, query }: ServedRoute): string {
  const needs =
    permissions.length > 0
      ? `Needs the permission ${permissions.map(namePermission).join(' and ')}.`
      : 'Needs the permission of each operation in it.'
  const writes = action
    ? `Writes the audit entry \`${action}\`.`
    : (ENTRIES_OF_BATCHES.get(path) ?? 'Writes no audit entry.')
  const closed = serverMode ? ' Refused for envelope-only tenants, with the entry `envelope_only.refused`.' : ''
  const strict = query ? ' Any other query parameter, and a repeated one, gets 400.' : ''
  return `${needs} ${writes}${closed}${strict}`
}

/** The permission, with another one that allows the same. */
function namePermission(permission: HeldPermission): string {
  const implying = PERMISSIONS.find((other) => other !== permission && !findMissingPermission([other], [permission]))
  return implying === undefined ? `\`${permission}\`` : `\`${permission}\` or \`${implying}\``
}

function pathParameters({ path }: ServedRoute): Json[] {
  if (!path.includes(':id')) return []
  const [what, example] = idOf(path)
  return [
    {
      name: 'id',
      in: 'path',
      required: true,
      description: `The ${what}'s id. Anything but a UUID gets 404.`,
      schema: { type: 'string', format: 'uuid' },
      example,
    },
    ...(path.includes(':version') ? [VERSION_PARAMETER] : []),
  ]
}

function idOf(path: string): [what: string, example: string] {
  if (path.startsWith('/admin')) return ['tenant', EXAMPLE_TENANT_ID]
  return path.startsWith('/v1/api-keys') ? ['API key', EXAMPLE_API_KEY_ID] : ['key', EXAMPLE_KEY_ID]
}

const VERSION_PARAMETER: Json = {
  name: 'version',
  in: 'path',
  required: true,
  description: 'The number of the version. Anything but a version of the key gets 404.',
  schema: { type: 'integer', minimum: 1 },
  example: 1,
}

function queryParameters({ query }: ServedRoute): Json[] {
  if (!query) return []
  const { properties = {} } = z.toJSONSchema(query, { unrepresentable: 'any', override: describeChecks }) as JsonSchema
  return Object.entries(properties).map(([name, generated]) => {
    const described = PARAMETERS[name]
    if (!described) throw new Error(`the query parameter ${name} is not described in docs/openapi/descriptions.ts`)
    if (generated.type === 'number') generated.type = 'integer' // queries.ts takes digits only
    const { description, json, schema = generated } = described
    return {
      name,
      in: 'query',
      description,
      ...(json ? { content: { [JSON_CONTENT_TYPE]: { schema: json } } } : { schema }),
    }
  })
}

function requestBody(body: unknown, components: Schemas): Json {
  const schema = schemaRef(body)
  return { required: true, content: { [JSON_CONTENT_TYPE]: { schema, example: exampleOf(schema, [], components) } } }
}

function success(row: ServedRoute, components: Schemas): Json {
  const { operationId, status, answer, contentType } = row
  const headers = { 'X-Request-Id': requestIdRef() }
  if (contentType) {
    const content = { [contentType]: { schema: { type: 'string' }, example: EXAMPLE_EXPORT } }
    return { description: 'Done. The answer is streamed.', headers, content }
  }
  if (!answer) return { description: 'Done.', headers }
  const schema = schemaRef(answer)
  const content = { [JSON_CONTENT_TYPE]: { schema, example: exampleOf(schema, [operationId], components) } }
  const links = linksOf(row, ROUTES)
  return {
    description: status === 201 ? 'Created.' : 'Done.',
    headers,
    content,
    ...(Object.keys(links).length > 0 ? { links } : {}),
  }
}

function refusals(row: ServedRoute): Record<string, Json> {
  return Object.fromEntries(
    [...problemsOf(row)].map(([status, codes]) => [
      status,
      status === PROBLEMS.E_UNAUTHORIZED.status
        ? { $ref: '#/components/responses/Unauthorized' }
        : refusal(status, codes),
    ]),
  )
}

function refusal(status: number, codes: readonly ProblemCode[]): Json {
  // With types, and `enum` for one value too: generators of clients leave out what they cannot merge with the schema of every problem.
  const narrowed = {
    properties: { status: { type: 'integer', enum: [status] }, code: { type: 'string', enum: codes } },
  }
  return {
    description: codes.map((code) => `\`${code}\``).join(', '),
    headers: { 'X-Request-Id': requestIdRef() },
    content: {
      [PROBLEM_CONTENT_TYPE]: {
        schema: { allOf: [schemaRef(wire.problem), narrowed] },
        examples: Object.fromEntries(codes.map((code) => [code, { $ref: `#/components/examples/${code}` }])),
      },
    },
  }
}

function unauthorized(): Json {
  const answer = refusal(PROBLEMS.E_UNAUTHORIZED.status, ['E_UNAUTHORIZED'])
  const challenge = { description: 'Always `Bearer`.', schema: { type: 'string', const: 'Bearer' } }
  return { ...answer, headers: { 'X-Request-Id': requestIdRef(), 'WWW-Authenticate': challenge } }
}

function problemExamples(): Json {
  const codes = Object.keys(DETAIL_EXAMPLES) as ProblemCode[]
  return Object.fromEntries(codes.map((code) => [code, { value: problemDocument(code, DETAIL_EXAMPLES[code]) }]))
}

/** The paths outside /v1, for operators of the server. */
function servicePaths(components: Schemas): OpenApiDocument['paths'] {
  const schema = schemaRef(wire.health)
  const example = exampleOf(schema, [], components)
  const health = (description: string) => ({ description, content: { [JSON_CONTENT_TYPE]: { schema, example } } })
  const service = { tags: [SERVICE_TAG], security: [] }
  const ready = health('It can. If `degraded`, `detail` says what needs an operator.')
  const readiness = (operationId: string, summary: string) => ({
    get: { operationId, summary, ...service, responses: { 200: ready, 503: health('It cannot.') } },
  })
  return {
    '/health': readiness('getHealth', 'Whether the service can do its work'),
    [READY_PATH]: readiness('getReadiness', 'The same as /health, under the name that Kubernetes uses'),
    [LIVE_PATH]: {
      get: {
        operationId: 'getLiveness',
        summary: 'Whether the process answers, whatever its database does',
        ...service,
        responses: {
          200: {
            description: 'It does.',
            content: { [JSON_CONTENT_TYPE]: { schema: { type: 'object' }, example: ALIVE } },
          },
        },
      },
    },
    '/metrics': {
      get: {
        operationId: 'getMetrics',
        summary: 'Metrics of this process for Prometheus',
        ...service,
        responses: { 200: { description: 'The metrics.', content: { 'text/plain': { schema: { type: 'string' } } } } },
      },
    },
    '/openapi.json': {
      get: {
        operationId: 'getOpenApi',
        summary: 'This document',
        ...service,
        responses: {
          200: { description: 'OpenAPI 3.1.', content: { [JSON_CONTENT_TYPE]: { schema: { type: 'object' } } } },
        },
      },
    },
  }
}

function requestIdRef(): Json {
  return { $ref: '#/components/headers/RequestId' }
}

/* The components: the schemas of bodies and answers, under the names that generated clients show. */

const SCHEMAS = schemasOf(wire)
const OPERATOR_SCHEMAS = schemasOf({ ...operators, health: wire.health, problem: wire.problem })

const COMPONENTS: ReadonlyMap<unknown, string> = new Map(
  [...SCHEMAS, ...OPERATOR_SCHEMAS].map(([name, schema]) => [schema, `${name[0]?.toUpperCase()}${name.slice(1)}`]),
)

function schemasOf(exported: object) {
  // By name: a bundle has exports in another order.
  const named = Object.entries<unknown>({ ...exported }).sort(([one], [other]) => (one < other ? -1 : 1))
  return named.flatMap(([name, schema]) => (schema instanceof z.ZodMiniObject ? [[name, schema] as const] : []))
}

function componentSchemas(
  schemas: ReturnType<typeof schemasOf>,
  properties: Record<string, Record<string, JsonSchema>>,
): Schemas {
  const registry = z.registry<{ id: string }>()
  for (const [, schema] of schemas) registry.add(schema, { id: nameOf(schema) })
  const generated = z.toJSONSchema(registry, {
    io: 'input', // objects stay open, since a later version may add members
    uri: refTo,
    override: describeChecks,
  })
  const components = generated.schemas as Schemas
  for (const schema of Object.values(components)) {
    delete schema.$schema
    delete schema.$id
  }
  for (const [component, described] of Object.entries(properties)) {
    for (const [name, keywords] of Object.entries(described)) {
      const property = components[component]?.properties?.[name]
      if (!property) throw new Error(`the schema ${component} has no property ${name} to describe`)
      Object.assign(property, keywords)
    }
  }
  return components
}

function schemaRef(schema: unknown): { $ref: string } {
  return { $ref: refTo(nameOf(schema)) }
}

/** @throws for a schema that neither `wire` nor the operators' schemas export */
function nameOf(schema: unknown): string {
  const name = COMPONENTS.get(schema)
  if (!name) throw new Error('a route has a schema without a name: export it from protocol/wire')
  return name
}

function refTo(name: string): string {
  return `#/components/schemas/${name}`
}

/** Adds what functions check in a schema, and in those that it was made from. */
function describeChecks({ zodSchema, jsonSchema }: { zodSchema: z.core.$ZodType; jsonSchema: object }): void {
  const from: (JsonSchema | undefined)[] = []
  for (let made: z.core.$ZodType | undefined = zodSchema; made; made = made._zod.parent) from.unshift(CHECKED.get(made))
  Object.assign(jsonSchema, ...from)
}
