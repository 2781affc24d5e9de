/** A run's calls to the server under test, and the list of what they created there. */
import { randomBytes } from 'node:crypto'
import { fillPath, JSON_MEDIA_TYPE, type OperationId, ROUTES, type RouteRow, readJson, type wire } from '@eaas/protocol'
import { Fault, show } from './cases/case.js'

const TIMEOUT_MS = 60_000 // a server that needs longer counts as not answering
/** The paths where a POST creates a key or an API key. */
const CREATIONS: readonly string[] = [ROUTES.createKey.path, ROUTES.createKeys.path, ROUTES.createApiKey.path]

export type Fetch = typeof globalThis.fetch

/** The parts of a call; text or bytes as `body` are sent unchanged. */
export interface Said {
  id?: string
  version?: number
  query?: Readonly<Record<string, string | number>>
  body?: unknown
  headers?: Readonly<Record<string, string>>
  apiKey?: string | null // another API key than the run's; null for none
}

export interface Answer {
  status: number
  headers: Headers
  text: string
  /** the answer's JSON; undefined if it is not JSON */
  // biome-ignore lint/suspicious/noExplicitAny: each case looks at the members that it expects, whatever the answer is
  body: any
}

type Body<Id extends OperationId> = Id extends keyof wire.Answers ? wire.Answers[Id] : undefined

export type Session = ReturnType<typeof createSession>

export interface SessionOptions {
  baseUrl: string
  apiKey: string
  isOpen: boolean
  fetch?: Fetch | undefined
  signal?: AbortSignal | undefined
  wait?: ((ms: number) => Promise<void>) | undefined
}

/** Makes eight letters and no digit, so that upper case always differs. */
function randomLetters(): string {
  return String.fromCharCode(...randomBytes(8).map((byte) => 97 + (byte % 26)))
}

export function createSession({ baseUrl, apiKey, isOpen, fetch = globalThis.fetch, ...options }: SessionOptions) {
  const run = `conformance ${randomLetters()}`
  const keys = new Map<string, string>()
  const apiKeys = new Set<string>()
  let names = 0
  let isCleaning = false

  async function send(method: string, path: string, said: Said = {}): Promise<Answer> {
    const { body, query = {}, headers, apiKey: other = apiKey } = said
    const isRaw = typeof body === 'string' || body instanceof Uint8Array
    const search = new URLSearchParams(Object.entries(query).map(([name, value]) => [name, String(value)]))
    const timeout = AbortSignal.timeout(TIMEOUT_MS)
    if (!isCleaning) options.signal?.throwIfAborted()
    // Only the answer tells what was created, so an interruption waits for it.
    const isWaiting = isCleaning || (method === 'POST' && CREATIONS.includes(path))
    const response = await fetch(`${baseUrl}${path}${search.size > 0 ? `?${search}` : ''}`, {
      method,
      redirect: 'manual',
      signal: options.signal && !isWaiting ? AbortSignal.any([options.signal, timeout]) : timeout,
      headers: {
        ...(other === null ? {} : { authorization: `Bearer ${other}` }),
        ...(body === undefined || isRaw ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: isRaw ? (body as BodyInit) : JSON.stringify(body) }),
    })
    const text = await response.text()
    return { status: response.status, headers: response.headers, text, body: readJson(text) }
  }

  async function call(operation: OperationId, said: Said = {}): Promise<Answer> {
    const { method, path }: RouteRow = ROUTES[operation]
    const answer = await send(method, fillPath(path, said), said)
    if (answer.status < 300) remember(operation, answer.body)
    return answer
  }

  function remember(operation: OperationId, body: Answer['body']): void {
    if (operation === 'createKey') keys.set(body?.id, body?.name)
    if (operation === 'createApiKey') apiKeys.add(body?.id)
    if (operation !== 'createKeys') return
    for (const result of body?.results ?? []) if (result.status === 201) keys.set(result.body?.id, result.body?.name)
  }

  /** Finds what calls created whose answers were lost. Returns what may be left if the lists are refused. */
  async function findLost(): Promise<string[]> {
    try {
      const list = await ok('listKeys', { query: { status: 'active' } })
      for (const { id, name } of list.keys.filter(isLeft)) keys.set(id, name)
      const { api_keys } = await ok('listApiKeys')
      for (const { id } of api_keys.filter(isLeft)) apiKeys.add(id)
      return []
    } catch {
      return [`keys and API keys named "${run} …" that no answer named, if there are any`]
    }
  }

  function isLeft({ name, status }: { name: string; status: string }): boolean {
    return status === 'active' && name.toLowerCase().startsWith(run) // some cases write their name in upper case
  }

  /** Makes a call that must succeed. Returns its body, unchecked. @throws Fault */
  async function ok<Id extends OperationId>(operation: Id, said?: Said): Promise<Body<Id>> {
    const { status, body } = await call(operation, said)
    if (status < 200 || status > 299)
      throw new Fault(`${operation}: expected success, got ${refusalOf(status, body)}: ${show(body?.detail)}`)
    return body
  }

  async function destroy(id: string, confirm: string): Promise<void> {
    const { status } = await ok('getKey', { id })
    if (status === 'active') await call('disableKey', { id })
    if (status === 'active' || status === 'disabled') await ok('destroyKey', { id, body: { confirm } })
  }

  return {
    /** Whether server mode is open to the tenant. */
    isOpen,
    send,
    call,
    ok,
    /** Makes a call that must be refused. Returns the answer. @throws Fault unless it is `refused`: `status code` */
    async refused(operation: OperationId, said: Said, refused: string): Promise<Answer> {
      const answer = await call(operation, said)
      const got = answer.status < 300 ? `${answer.status}` : refusalOf(answer.status, answer.body)
      if (got !== refused) throw new Fault(`${operation} of ${show(said)}: expected ${refused}, got ${got}`)
      return answer
    },
    newKey: () => ok('createKey', { body: { name: newName() } }),
    newApiKey: (fields: object) => ok('createApiKey', { body: { name: newName(), ...fields } }),
    newName,
    wait: options.wait ?? ((ms: number) => new Promise((resolve) => setTimeout(resolve, ms))),
    /** Destroys the run's keys, and revokes its API keys. Returns what is left. */
    async cleanUp() {
      isCleaning = true
      const left = await findLost()
      for (const [id, name] of keys) await destroy(id, name).catch(() => left.push(`key ${id}`))
      for (const id of apiKeys) await ok('revokeApiKey', { id }).catch(() => left.push(`API key ${id}`))
      return left
    },
  }

  function newName(separator = ' '): string {
    names += 1
    return `${run}${separator}${names}`
  }
}

/** Describes a refusal as `status code`. */
export function refusalOf(status: number, body: Answer['body']): string {
  return `${status} ${typeof body?.code === 'string' ? body.code : 'without a code'}`
}

export function isJson({ headers }: Answer): boolean {
  return JSON_MEDIA_TYPE.test(headers.get('content-type') ?? '')
}
