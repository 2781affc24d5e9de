// Answers that lie, made from honest ones: each has one thing wrong.

/** An honest answer; `undefined` is no body, as with 204. */
export interface Sample {
  status: number
  body: unknown
}

export interface Lie {
  lie: string
  /** The body, where the lie is in it. */
  body?: unknown
  /** Of the error: E_PROTOCOL where none is named. */
  code?: 'E_API' | 'E_NETWORK'
  respond: (request: Request) => Response | Promise<Response>
}

const JSON_TYPE = { 'content-type': 'application/json' }
const PROBLEM_TYPE = { 'content-type': 'application/problem+json' }

/** Fields that may be left out. */
const OPTIONAL = [
  'destroy_at',
  'last_unwrapped_at',
  'blind_hash_public_key',
  'expires_at',
  'allowed_ips',
  'keys',
  'budgets',
  'broken_at',
  'reason',
  'checkpoint',
]
/** Fields that may be null. */
const NULLABLE = [
  'rotation',
  'ip_address',
  'monthly_encrypt_quota',
  'head',
  'created_at',
  'median',
  'blind_hash_public_key',
]
/** Those that may be null in an entry of the log. */
const NULLABLE_IN_LOGS = ['key_id', 'key_version']
/** What holds fields of any name and kind. */
const FREE = ['metadata', 'budgets']

const KINDS: Record<string, unknown> = {
  number: 7,
  text: 'x',
  true: true,
  null: null,
  'a list': [],
  'a list of itself': 'itself',
  'an object': {},
}

/** What a text may not be, by the name of its field. */
const FORMS: [RegExp, string[]][] = [
  [
    /^(id|key_id|tenant_id)$/,
    [
      '',
      'users',
      '../admin',
      'AAAAAAAA-0000-4000-8000-000000000000',
      '00000000-0000-4000-8000-000000000000\n',
      '00000000000040008000000000000000',
    ],
  ],
  [/_at$/, ['', 'now', '2026-01-01', '2026-01-01T00:00:00Z', '2026-01-01T00:00:00.000+00:00', '1767225600000']],
  [
    /^dek$/,
    [
      '',
      'AAAA',
      'A'.repeat(43),
      `${'A'.repeat(43)}=\n`,
      'A'.repeat(44),
      `${'A'.repeat(42)}B=`,
      `${'-'.repeat(42)}A=`,
      'ff'.repeat(32),
      '\0'.repeat(44),
    ],
  ],
  [
    /^(elements|proof|blind_hash_public_key)$/,
    ['', 'x', 'AAAA', 'A'.repeat(44), `${'A'.repeat(43)}=\n`, 'A'.repeat(88)],
  ],
  [/^suite$/, ['', 'P256-SHA256', 'ristretto255-sha512']],
  [/^(ciphertext|iv|plaintext)$/, ['x', 'A===', 'AAA', '_-_-', 'AAAA\n', 'AB==', '\ud800']],
  [
    /^wrapped_key$/,
    ['', 'x', 'AAA', '_-_-', 'AAAA\n', 'AB==', '\ud800', 'wrapped:v1', 'A'.repeat(1_028), 'A'.repeat(10_000_000)],
  ],
  [/^(hash|dek_hex|hash_key_hex)$/, ['', 'x', 'A'.repeat(64), 'a'.repeat(63), 'a'.repeat(65), `${'a'.repeat(64)}\n`]],
  [/^status$/, ['', 'ACTIVE', 'stolen', '__proto__']],
  [/^(algorithm|action)$/, ['', 'none', 'constructor']],
]
/** A head's hash is opaque to the SDK. */
const OPAQUE = ['head.hash']

/** Every lie about one thing in the body of an answer. */
export function liesOf({ status, body }: Sample): Lie[] {
  if (body === undefined) {
    const bodies: [string, unknown][] = [
      ['a body where there is none', {}],
      ['null', null],
      ['the status of a body', ''],
    ]
    return bodies.map(([lie, value]) => ({ lie, respond: () => Response.json(value, { status: 200 }) }))
  }
  return [...wrong(body, [])].map(({ lie, value }) => ({
    lie,
    body: value,
    respond: () => new Response(JSON.stringify(value), { status, headers: JSON_TYPE }),
  }))
}

interface Wrong {
  lie: string
  value: unknown
}

function* wrong(honest: unknown, path: readonly string[]): Generator<Wrong> {
  const name = path.findLast((part) => !/^\d+$/.test(part)) ?? ''
  const place = path.join('.') || 'the body'
  if (!FREE.includes(path.at(-2) ?? '')) {
    for (const [kind, value] of Object.entries(KINDS)) {
      if (kindOf(value) === kindOf(honest) && value !== 'itself') continue
      if (value === null && NULLABLE.includes(name)) continue
      if (value === null && path[0] === 'logs' && NULLABLE_IN_LOGS.includes(name)) continue
      if (honest === null || (kindOf(honest) === 'object' && kindOf(value) === 'object')) continue
      yield { lie: `${place} is ${kind}`, value: value === 'itself' ? [honest] : value }
    }
  }
  if (typeof honest === 'number') for (const value of numbers(name)) yield { lie: `${place} is ${value}`, value }
  if (typeof honest === 'string' && !OPAQUE.includes(path.join('.'))) {
    for (const [pattern, values] of FORMS) {
      if (pattern.test(name)) for (const value of values) yield { lie: `${place} is ${JSON.stringify(value)}`, value }
    }
  }
  if (typeof honest !== 'object' || honest === null || FREE.includes(name)) return
  for (const [key, child] of Object.entries(honest)) {
    if (Array.isArray(honest) && Number(key) >= 2) return // the others are like these
    const put = (value: unknown) =>
      Array.isArray(honest) ? honest.with(Number(key), value) : { ...honest, [key]: value }
    for (const { lie, value } of wrong(child, [...path, key])) yield { lie, value: put(value) }
    if (Array.isArray(honest) || OPTIONAL.includes(key) || name === 'operations') continue
    const { [key]: _, ...rest } = honest as Record<string, unknown>
    yield { lie: `${place} has no ${key}`, value: rest }
    yield {
      lie: `${place} has ${key} as __proto__ alone`,
      value: JSON.parse(`{"__proto__":${JSON.stringify(honest)},"polluted":true}`),
    }
  }
}

function numbers(name: string): unknown[] {
  const never = [1.5, 2 ** 60, 1e300, '1']
  if (/version$/.test(name)) return [...never, 0, -1, 2 ** 31]
  return name === 'interval_days' ? never : [...never, -1]
}

function kindOf(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'list' : typeof value
}

/** What does not answer any call. */
export const PAGES: readonly Lie[] = [
  page('a page', '<h1>hello</h1>', { 'content-type': 'text/html' }),
  page('a page that says it is JSON', '<h1>hello</h1>'),
  page('JSON that says it is a page', '{}', { 'content-type': 'text/html' }),
  page('JSON that says it is text', '{}', { 'content-type': 'text/plain' }),
  page('JSON without a type', '{}', {}),
  page('JSON of a type of its own', '{}', { 'content-type': 'application/vnd.eaas+json' }),
  page('a success as a problem', '{}', PROBLEM_TYPE),
  page('nothing', ''),
  page('white space', ' \n'),
  page('half of an object', '{"dek":"AAAA'),
  page('two objects', '{}{}'),
  page('a comment', '{}//'),
  page('NaN', 'NaN'),
  page('single quotes', "{'dek':1}"),
  page('bytes that are not UTF-8', Uint8Array.of(0x7b, 0x22, 0xff, 0x22, 0x7d)),
  page('half of a character', Uint8Array.of(0x22, 0xf0, 0x9f)),
  page('UTF-16', new Uint8Array(Buffer.from('{}', 'utf16le'))),
  page('a deep list', '['.repeat(50_000) + ']'.repeat(50_000)),
  page('a deep object', `${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}`),
  { lie: '17 MiB', respond: () => new Response(whiteSpace(17 * 16), { headers: JSON_TYPE }) },
  page('a long number', '9'.repeat(500_000)),
  page('pollution', '{"__proto__":{"polluted":true},"constructor":{"prototype":{"polluted":true}}}'),
  ...[201, 202, 203, 206, 207, 226].map((status) => page(`status ${status} and nothing else`, '{}', JSON_TYPE, status)),
  ...[205, 304].map((status) => page(`status ${status}`, null, JSON_TYPE, status)),
  ...[300, 301, 302, 303, 305, 307, 308].map((status) =>
    page(`a redirect, ${status}`, null, { ...JSON_TYPE, location: 'https://evil.example/v1/keys' }, status),
  ),
  ...[400, 401, 403, 404, 409, 413, 422, 429, 500, 503, 599].flatMap((status) => [
    page(`an error ${status} without a problem`, '{}', PROBLEM_TYPE, status),
    page(`an error ${status} as a page`, '<h1>no</h1>', { 'content-type': 'text/html' }, status),
    page(`a problem of another status than ${status}`, problem(418), PROBLEM_TYPE, status),
    page(`an error ${status} as JSON`, problem(status), JSON_TYPE, status),
  ]),
  ...Object.entries({ type: 1, title: null, status: '400', detail: ['x'], code: {} }).map(([field, value]) =>
    page(`a problem whose ${field} is of another kind`, problem(400, { [field]: value }), PROBLEM_TYPE, 400),
  ),
  {
    lie: 'a problem that repeats what was sent',
    code: 'E_API',
    respond: (request) => repeating(request, PROBLEM_TYPE, 400),
  },
  {
    lie: 'a page that repeats what was sent',
    respond: (request) => repeating(request, { 'content-type': 'text/html' }, 200),
  },
  { lie: 'a type that repeats what was sent', respond: repeatingInHeaders },
  {
    lie: 'a body that breaks off',
    code: 'E_NETWORK',
    respond: () =>
      new Response(new ReadableStream({ start: (controller) => controller.error(new Error('reset')) }), {
        headers: JSON_TYPE,
      }),
  },
  { lie: 'no answer', code: 'E_NETWORK', respond: () => Promise.reject(new TypeError('fetch failed')) },
  { lie: 'Response.error()', respond: () => Response.error() },
]

function page(lie: string, body: BodyInit | null, headers: Record<string, string> = JSON_TYPE, status = 200): Lie {
  return { lie, respond: () => new Response(body, { status, headers }) }
}

/** This many chunks of 64 KiB, made as they are read. */
function whiteSpace(chunks: number): ReadableStream {
  let left = chunks
  return new ReadableStream({
    pull(controller) {
      left -= 1
      if (left < 0) controller.close()
      else controller.enqueue(new Uint8Array(65_536).fill(0x20))
    },
  })
}

function problem(status: number, over: object = {}): string {
  return JSON.stringify({ type: 'about:blank', title: 'x', status, detail: 'x', code: 'E_X', ...over })
}

async function repeating(request: Request, headers: Record<string, string>, status: number): Promise<Response> {
  const sent = await sentWith(request)
  return new Response(problem(status, { title: sent, detail: sent, code: sent }), { status, headers })
}

async function repeatingInHeaders(request: Request): Promise<Response> {
  const sent = (await sentWith(request)).replace(/[^\x20-\x7e]/g, '')
  return new Response('{}', { headers: { 'content-type': sent, 'x-request-id': sent } })
}

/** The API key and every value of the body. */
async function sentWith(request: Request): Promise<string> {
  const body: unknown = await request.json().catch(() => ({})) // a call without a body
  return `${request.headers.get('authorization')} ${Object.values(body as object).join(' ')}`
}
