// Values that fit a JSON schema of the OpenAPI document, at its edges where it has any. Each is compared with the schema by the caller.
import fc from 'fast-check'

// biome-ignore lint/suspicious/noExplicitAny: a JSON schema has any of its keywords
export type Schema = Record<string, any>

/** Texts that a schema may take for an address, a list, a name or a number by mistake; used where it takes them. */
const TEXTS = [
  '',
  ' ',
  'a',
  '*',
  '/*',
  'a/*',
  'customers/*',
  'a/*b',
  '\ufeff',
  '\u0080',
  'é',
  '👩‍👩‍👧',
  '\u202e',
  'a,b',
  'a b',
  '{}',
  '[]',
  '{"a":1}',
  '127.0.0.1',
  '010.0.0.1',
  '10.0.0.0/33',
  '10.0.0.0/08',
  '999.1.1.1/8',
  '1.2.3.4/',
  '::',
  '::/0',
  '::1%eth0',
  '1::2::3/8',
  'fe80::/129',
  '::ffff:10.0.0.1/8',
  '::FFFF:a00:1/95',
  '0:0:0:0:0:ffff::/80',
  '0::ffff:0:1/3',
  '::ffff:0:0/96',
  '2001:DB8::/32',
  'x'.repeat(255),
  '00000000-0000-0000-0000-000000000000',
  'ABCDEF00-0000-4000-8000-00000000000A',
  'QQ==',
  `${'A'.repeat(43)}=`,
  '2026-11',
  '0000-01',
  ...['eaas/audit/checkpoint/v1\n', 'x'.repeat(300), `${'💡'.repeat(253)}/*`],
]

export interface SchemaValues {
  resolve: (ref: string) => Schema
  /** whether a value fits a schema */
  fits: (schema: Schema, value: unknown) => boolean
  /** values of things that are there, by the name of the member that takes them */
  known?: Record<string, readonly unknown[]>
}

/** Makes values that fit a schema. */
export function schemaValues(schema: Schema, using: SchemaValues, name = ''): fc.Arbitrary<unknown> {
  const { known = {}, fits } = using
  const made = candidates(schema, using, name).filter((value) => fits(schema, value))
  const there = (known[name] ?? []).filter((value) => fits(schema, value))
  return there.length === 0 ? made : fc.oneof(fc.constantFrom(...there), made)
}

function candidates(schema: Schema, using: SchemaValues, name: string): fc.Arbitrary<unknown> {
  if (schema.$ref) return schemaValues(using.resolve(schema.$ref), using, name)
  if (schema.const !== undefined) return fc.constant(schema.const)
  if (schema.enum) return fc.constantFrom(...schema.enum)
  if (schema.anyOf && schema.properties === undefined)
    return fc.oneof(
      ...schema.anyOf.map((each: Schema) => schemaValues({ ...schema, anyOf: undefined, ...each }, using, name)),
    )
  if (Array.isArray(schema.type))
    return fc.oneof(...schema.type.map((type) => schemaValues({ ...schema, type }, using, name)))
  switch (schema.type) {
    case 'object':
      return objects(schema, using)
    case 'array': {
      const { minItems = 0, maxItems = 10 } = schema
      return fc.array(schemaValues(schema.items, using, name), {
        minLength: minItems,
        maxLength: Math.min(maxItems, minItems + 10),
      })
    }
    case 'integer': {
      const { minimum: min = Number.MIN_SAFE_INTEGER, maximum: max = Number.MAX_SAFE_INTEGER } = schema
      return fc.oneof(
        fc.integer({ min, max: Math.min(max, min + 100) }),
        fc.constantFrom(min, max),
        fc.maxSafeInteger().filter((n) => n >= min && n <= max),
      )
    }
    case 'boolean':
      return fc.boolean()
    case 'null':
      return fc.constant(null)
    case 'string':
      return texts(schema, using)
  }
  return fc.jsonValue({ maxDepth: 1 })
}

function objects({ properties = {}, required = [], ...schema }: Schema, using: SchemaValues): fc.Arbitrary<unknown> {
  const model = Object.fromEntries(
    Object.entries<Schema>(properties).map(([member, each]) => [member, schemaValues(each, using, member)]),
  )
  if (Object.keys(model).length > 0) return fc.record(model, { requiredKeys: required })
  const names = texts({ type: 'string', ...schema.propertyNames }, using)
  const { maxProperties = 10 } = schema
  return fc.dictionary(names as fc.Arbitrary<string>, schemaValues(schema.additionalProperties, using), {
    maxKeys: maxProperties,
  })
}

function texts(schema: Schema, { fits }: SchemaValues): fc.Arbitrary<unknown> {
  if (schema.format === 'date-time')
    return fc
      .date({ min: new Date('2100-01-01'), max: new Date('9999-12-30'), noInvalidDate: true })
      .map((date) => date.toISOString().replace('Z', '+01:00'))
  const odd = TEXTS.filter((text) => fits(schema, text))
  const all = [
    ...(odd.length > 0 ? [fc.constantFrom(...odd)] : []),
    ...(schema.format === 'uuid' ? [fc.uuid(), fc.uuid().map((id) => id.toUpperCase())] : []),
    // Anchors are in every pattern, so that a prefix that is taken at random seldom fits.
    schema.pattern
      ? fc.stringMatching(new RegExp(schema.pattern, 'u'))
      : fc.string({ unit: 'binary', maxLength: Math.min(schema.maxLength ?? 300, 300) }),
  ]
  return fc.oneof(...all)
}
