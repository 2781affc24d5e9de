/**
 * The page at /docs: the OpenAPI document as HTML, whole, without scripts, so that a browser's search finds everything. It loads
 * nothing, and its one link is relative, so that it works behind a path prefix.
 */
import { createHash } from 'node:crypto'
import { PROBLEM_CONTENT_TYPE } from '@eaas/protocol'
import type { JsonSchema } from './descriptions.js'
import type { OpenApiDocument } from './document.js'

interface Media {
  schema: JsonSchema
  example?: unknown
}
interface Parameter {
  name: string
  in: string
  required?: boolean
  description: string
  schema?: JsonSchema
  content?: Record<string, Media>
}
interface Response {
  $ref?: string
  description: string
  content?: Record<string, Media>
}
interface Call {
  /** the method and the path */
  name: string
  operationId: string
  summary: string
  description?: string
  tags: string[]
  parameters?: Parameter[]
  requestBody?: { content: Record<string, Media> }
  responses: Record<string, Response>
}

interface Components {
  schemas: Record<string, JsonSchema>
  responses: Record<string, Response>
}

/** A longer pattern says less than the description. */
const SHOWN_PATTERN = 60

const STYLE = `
:root { color-scheme: light dark; --line: light-dark(#d6d9dd, #3a3f46); --soft: light-dark(#f5f6f8, #22262b); --link: light-dark(#0550ae, #79b8ff); }
body { background: Canvas; color: CanvasText; margin: 0 auto; padding: 1.5rem; max-width: 64rem; font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
a { color: var(--link); }
h2 { margin-top: 3rem; border-bottom: 1px solid var(--line); }
h3 { margin: 3rem 0 0; font-size: 1.15rem; }
h3 code { background: none; padding: 0; font-size: 1em; font-weight: bold; }
h4 { margin: 1rem 0 .25rem; font-size: .95rem; }
p { margin: .4rem 0; }
code, pre { font: .9em/1.45 ui-monospace, monospace; }
code { background: var(--soft); padding: 0 .2em; }
pre { background: var(--soft); padding: .6rem .8rem; margin: .4rem 0; white-space: pre-wrap; }
nav ul { columns: 20rem; list-style: none; padding: 0; margin: .2rem 0 1rem; }
table { border-collapse: collapse; width: 100%; margin: .4rem 0; font-size: .95rem; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .8rem .3rem 0; text-align: left; vertical-align: top; }
th { width: 24%; font-weight: inherit; }
th + td { width: 30%; }
@media (width < 40rem) {
  tr { display: block; border-bottom: 1px solid var(--line); padding: .4rem 0; }
  tr > *, th + td { display: block; width: auto; border: 0; padding: 0; }
}
`

/** Makes the page of a document. */
export function docsPage(document: OpenApiDocument): string {
  const { info, tags, paths } = document as OpenApiDocument & {
    info: { title: string; description: string }
    tags: { name: string; description: string }[]
  }
  const components = document.components as unknown as Components
  const calls = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({
      name: `${method.toUpperCase()} ${path}`,
      ...(operation as unknown as Omit<Call, 'name'>),
    })),
  )
  const of = (tag: string) => calls.filter(({ tags: [first] }) => first === tag)
  const hash = createHash('sha256').update(STYLE).digest('base64')
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-${hash}'; img-src data:; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${info.title} API</title>
<link rel="icon" href="data:,">
<style>${STYLE}</style>
</head>
<body>
<header>
<h1>${info.title} API</h1>
${info.description.split('\n\n').map(paragraph).join('\n')}
<p>The same for programs: <a href="openapi.json">openapi.json</a>, OpenAPI 3.1. A call by hand:</p>
<pre>curl "$EAAS_URL/v1/keys" -H "Authorization: Bearer $EAAS_API_KEY" --json '{"name":"customers"}'</pre>
</header>
<nav>
${tags
  .map(
    ({ name }) =>
      `<h4><a href="#${anchor(name)}">${name}</a></h4>\n<ul>${of(name)
        .map((call) => `<li><a href="#${call.operationId}"><code>${call.name}</code></a></li>`)
        .join('')}</ul>`,
  )
  .join('\n')}
<h4><a href="#shapes">Shapes</a></h4>
</nav>
<main>
${tags
  .map(
    (tag) =>
      `<h2 id="${anchor(tag.name)}">${tag.name}</h2>\n${paragraph(tag.description)}\n${of(tag.name)
        .map((call) => section(call, components))
        .join('\n')}`,
  )
  .join('\n')}
<h2 id="shapes">Shapes</h2>
<p>The members of bodies and answers. More may come in answers.</p>
${Object.entries(components.schemas)
  .map(([name, schema]) => `<h3 id="${name}">${name}</h3>\n${table(rows(schema))}`)
  .join('\n')}
</main>
</body>
</html>
`
}

function section(call: Call, { schemas, responses }: Components): string {
  const { parameters = [], requestBody } = call
  const named = parameters.map((each) =>
    row(
      each.name,
      each.required ?? false,
      { ...schemaOf(each), description: each.description },
      each.content && 'JSON: ',
    ),
  )
  const answers: string[] = []
  const refusals: string[] = []
  for (const [status, { $ref, ...own }] of Object.entries(call.responses)) {
    const { description, content = {} } = $ref === undefined ? own : (responses[nameIn($ref)] ?? own)
    if (content[PROBLEM_CONTENT_TYPE]) refusals.push(`${status}\u00a0${inline(description)}`)
    else answers.push(`<h4>${status} ${inline(description)}</h4>\n${media(content)}`)
  }
  return `<section>
<h3 id="${call.operationId}"><code>${call.name}</code></h3>
<p>${text(call.summary)}. ${inline(call.description ?? 'Needs no API key.')}</p>
${named.length > 0 ? `<h4>Parameters</h4>\n${table(named)}` : ''}
${requestBody ? `<h4>Body</h4>\n${media(requestBody.content, schemas)}` : ''}
${answers.join('\n')}
${refusals.length > 0 ? `<h4>Refusals, each a <a href="#Problem">Problem</a></h4>\n<p>${refusals.join('; ')}</p>` : ''}
</section>`
}

function schemaOf({ schema, content }: Parameter): JsonSchema {
  return schema ?? Object.values(content ?? {})[0]?.schema ?? {}
}

/** The name and the example of what is sent, with its members if `schemas` are given. */
function media(content: Record<string, Media>, schemas: Components['schemas'] = {}): string {
  return Object.entries(content)
    .map(([type, { schema, example }]) => {
      const { $ref } = schema
      const members = $ref && schemas[nameIn($ref)]
      const written = typeof example === 'string' ? example : JSON.stringify(example, null, 2)
      return `<p>${$ref ? `${typeOf(schema)}, ` : ''}<code>${type}</code></p>
${members ? table(rows(members)) : ''}
${example === undefined ? '' : `<pre>${text(written)}</pre>`}`
    })
    .join('\n')
}

function nameIn(ref: string): string {
  return ref.slice(ref.lastIndexOf('/') + 1)
}

/** The members of an object, those of objects within it by their paths. */
function rows({ properties = {}, required = [] }: JsonSchema, within = ''): string[] {
  return Object.entries(properties).flatMap(([name, property]) => {
    const parts = property.anyOf ?? [property]
    const inner = parts.flatMap((part) => [[part, ''] as const, [part.items ?? {}, '[]'] as const])
    return [
      row(within + name, required.includes(name), property),
      ...inner.flatMap(([part, brackets]) => rows(part, `${within}${name}${brackets}.`)),
    ]
  })
}

function table(lines: string[]): string {
  return `<table>${lines.join('\n')}</table>`
}

function row(name: string, isRequired: boolean, schema: JsonSchema, prefix = ''): string {
  const { description = '' } = schema as { description?: string }
  return `<tr><th scope="row"><code>${text(name)}</code>${isRequired ? '' : ' optional'}</th><td>${prefix}${typeOf(schema)}</td><td>${inline(description)}</td></tr>`
}

/** What a value may be, in words. */
function typeOf(schema: JsonSchema): string {
  const { $ref, anyOf, enum: values, items } = schema
  const {
    type,
    const: only,
    format,
    minimum,
    maximum,
    minLength,
    maxLength,
    minItems,
    maxItems,
    pattern,
    default: usual,
  } = schema as Record<string, string | undefined>
  if ($ref) {
    const name = nameIn($ref)
    return `<a href="#${name}">${name}</a>`
  }
  if (anyOf && !type) return anyOf.map(typeOf).join(' or ')
  if (only !== undefined) return code(only)
  if (values) return values.map(code).join(', ')
  const range = (least: unknown, most: unknown, what = '') => {
    if (most === undefined) return least === undefined ? '' : `, ${least} or more${what}`
    return least === undefined ? `, at most ${most}${what}` : `, ${least} to ${most}${what}`
  }
  if (items) return `array of ${typeOf(items)}${range(minItems, maxItems, ' items')}`
  const name = [type ?? 'any value'].flat().join(' or ')
  const form = format ?? (pattern !== undefined && pattern.length <= SHOWN_PATTERN ? code(pattern) : '')
  return `${name}${form ? `, ${form}` : ''}${range(shownBound(minimum), shownBound(maximum))}${range(minLength, maxLength, ' characters')}${usual === undefined ? '' : `, ${code(usual)} by default`}`
}

/** That a number is exact in JSON bounds every whole number, and is not shown. */
function shownBound(bound: unknown): unknown {
  return Math.abs(Number(bound)) === Number.MAX_SAFE_INTEGER ? undefined : bound
}

function code(value: unknown): string {
  return `<code>${text(typeof value === 'string' ? value : JSON.stringify(value))}</code>`
}

function paragraph(markdown: string): string {
  return `<p>${inline(markdown)}</p>`
}

/** Descriptions have no Markdown but code. */
function inline(markdown: string): string {
  return text(markdown).replaceAll(/`([^`]+)`/g, '<code>$1</code>')
}

function text(plain: string): string {
  return plain.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

/** Makes the id of a tag's heading; those of calls and shapes have no hyphen. */
function anchor(tag: string): string {
  return `calls-${tag.toLowerCase().replaceAll(' ', '-')}`
}
