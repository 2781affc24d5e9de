// The other end of the SDK's tests: a small honest service over real HTTP, with real wrapping under a KEK,
// that can be told to misbehave. It shares no code with the SDK.
import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes, randomUUID } from 'node:crypto'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { indexSecretInfo } from '@eaas/protocol'
import { ristretto255_oprf } from '@noble/curves/ed25519.js'

export const API_KEY = 'eaas_sk_test_5f1d7c0e9ab34f62'

export const TENANT_ID = '5b1d2f6c-0c36-4f5e-8d0f-6f5d2d4c9a11'

export interface Recorded {
  method: string
  /** Path and query. */
  url: string
  /** The operation that is called: wrap, unwrap, rewrap, hash, batch, create, get, list, rotate, audit, verify, … */
  operation: string
  /** The operations that a batch holds. */
  operations: readonly Record<string, string>[]
  headers: IncomingMessage['headers']
  body: string
}

/** Answers in place of the service; returns false to let it answer itself. */
export type Intercept = (request: Recorded, response: ServerResponse) => boolean

interface ServiceKey {
  id: string
  name: string
  keks: Buffer[]
  hashKey: Buffer
  created_at: string
}

interface Answer {
  status: number
  body: unknown
}

interface BlindHashed {
  elements: string[]
  proof: string
  key_id: string
  suite: string
}

export class Service {
  /** Base URL, without a trailing slash; empty until it has started. */
  url = ''
  readonly requests: Recorded[] = []
  /** DEKs to return for wrapped keys that the service did not make. */
  readonly planted = new Map<string, Uint8Array>()
  /** The answers to uses of a key, by its id: for one that is disabled or destroyed. */
  readonly refused = new Map<string, Answer>()
  intercept: Intercept | undefined
  /** How many entries the audit log has. */
  auditEntries = 1
  readonly #keys = new Map<string, ServiceKey>()
  readonly #server = createServer((request, response) => void this.#serve(request, response))

  async start(): Promise<void> {
    this.#server.keepAliveTimeout = 0 // otherwise, on a busy machine, it closes a connection just when the client uses it
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  /** Forgets its requests and what it was told to do; its keys stay. */
  reset(): void {
    this.requests.length = 0
    this.intercept = undefined
    this.planted.clear()
    this.refused.clear()
  }

  createKey(name: string = randomUUID(), hashKey: Uint8Array = randomBytes(32)): string {
    const id = randomUUID()
    this.#keys.set(id, {
      id,
      name,
      keks: [randomBytes(32)],
      hashKey: Buffer.from(hashKey),
      created_at: new Date().toISOString(),
    })
    return id
  }

  /** How often an operation was called, alone or in a batch. */
  count(operation: string): number {
    return this.requests.flatMap(asked).filter((request) => request.op === operation).length
  }

  /** What it answers to blinded values. */
  blindHash(keyId: string, elements: readonly string[]): BlindHashed {
    const key = this.#keys.get(keyId)
    if (!key) throw new Error('no such key')
    return blindHash(key, elements)
  }

  /** The DEKs that were sent to be wrapped. */
  wrappedDeks(): Buffer[] {
    const wraps = this.requests.flatMap(asked).filter(({ op }) => op === 'wrap')
    return wraps.map(({ dek }) => Buffer.from(dek ?? '', 'base64'))
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const { method = '', url = '', headers } = request
    const path = url.replace(/\?.*$/, '').replace(/^.*?(?=\/v1\/)/, '')
    const text = Buffer.concat(chunks).toString()
    const operation = operationOf(method, path)
    const operations = operation === 'batch' ? (JSON.parse(text) as Pick<Recorded, 'operations'>).operations : []
    const recorded = { method, url, headers, operation, operations, body: text }
    this.requests.push(recorded)
    if (this.intercept?.(recorded, response)) return
    if (headers.authorization !== `Bearer ${API_KEY}`)
      return send(response, problem(401, 'Unauthorized', 'E_UNAUTHORIZED'))
    if (operation === 'batch') return send(response, this.#batch(operations))
    const body = text === '' ? {} : (JSON.parse(text) as Record<string, string>)
    send(response, this.#answer(operation, path, body, new URLSearchParams(url.split('?')[1])))
  }

  #batch(operations: Recorded['operations']): Answer {
    if (operations.length === 0 || operations.length > 1_000) return problem(400, 'Bad Request', 'E_VALIDATION')
    return ok({ results: operations.map((body) => this.#answer(callOf(body), `/v1/keys/${body.key_id}`, body)) })
  }

  #answer(operation: string, path: string, body: Record<string, string>, query = new URLSearchParams()): Answer {
    if (operation === 'create') return this.#create(body.name ?? '')
    if (operation === 'list') return ok({ keys: [...this.#keys.values()].map(present), count: this.#keys.size })
    if (operation === 'audit') return ok(this.#audit(query))
    if (operation === 'verify') {
      const head = { id: 1, hash: 'aa', created_at: new Date().toISOString() }
      return ok({ valid: true, total_entries: 1, verified_entries: 1, head, purged_through: 0 })
    }
    const other = this.#answerOther(operation, path, body)
    if (other) return other
    const namesKey = operation === 'hash' || operation === 'blindHash'
    const key = this.#keys.get((namesKey ? body.key_id : path.split('/')[3]) ?? '')
    if (!key) return problem(404, 'Not Found', 'E_NOT_FOUND')
    if (operation === 'get') {
      const versions = key.keks.map((_, at) => ({
        version: at + 1,
        status: 'active',
        created_at: key.created_at,
        wraps: 0,
      }))
      const blind_hash_public_key = Buffer.from(blindKeys(key).publicKey).toString('base64')
      return ok({ ...present(key), updated_at: key.created_at, blind_hash_public_key, versions })
    }
    if (operation === 'rotate') {
      key.keks.push(randomBytes(32))
      return ok(present(key))
    }
    const refusal = this.refused.get(key.id)
    if (refusal) return refusal
    const use = useOf(body)
    if (operation === 'wrap') return wrap(key, body.dek ?? '', use)
    if (operation === 'unwrap') return this.#unwrap(key, body.wrapped_key ?? '', use)
    if (operation === 'rewrap') {
      const { status, body: answer } = this.#unwrap(key, body.wrapped_key ?? '', use)
      return status === 200 ? wrap(key, (answer as { dek: string }).dek, use) : { status, body: answer }
    }
    if (operation === 'rotation') {
      const interval_days = Number(body.interval_days)
      return ok({ ...present(key), rotation: { interval_days, next_rotation_at: key.created_at } })
    }
    if (operation === 'disable') return { status: 204, body: undefined }
    if (operation === 'enable' || operation === 'cancel' || operation === 'destroy version') return ok(present(key))
    if (operation === 'destroy') {
      if (body.confirm !== key.name) return problem(400, 'Bad Request', 'E_VALIDATION')
      return ok({ ...present(key), status: 'pending_destruction', destroy_at: key.created_at })
    }
    if (operation === 'export') {
      const versions = key.keks.map((kek, at) => ({ version: at + 1, dek_hex: kek.toString('hex'), status: 'active' }))
      const { id: key_id, name, created_at: exported_at } = key
      const rest = { algorithm: 'AES-256-GCM', hash_key_hex: key.hashKey.toString('hex'), warning: 'Keep it offline.' }
      return ok({ tenant_id: TENANT_ID, key_id, name, versions, exported_at, ...rest })
    }
    if (operation === 'indexSecret') {
      const secret = hkdfSync('sha256', key.hashKey, '', indexSecretInfo(body.name ?? ''), 32)
      return ok({ secret: Buffer.from(secret).toString('base64'), key_id: key.id })
    }
    if (operation === 'hash') {
      const hash = createHmac('sha256', key.hashKey).update(body.value ?? '')
      return ok({ hash: hash.digest('hex'), key_id: key.id })
    }
    if (operation === 'blindHash') return ok(blindHash(key, body.elements as unknown as string[]))
    return problem(404, 'Not Found', 'E_ROUTE_NOT_FOUND')
  }

  #audit(query: URLSearchParams): object {
    const [limit, offset, after] = ['limit', 'offset', 'after_id'].map((name) => Number(query.get(name)))
    const ids = Array.from({ length: this.auditEntries }, (_, at) => at + 1).filter((id) => id > (after ?? 0))
    if (query.get('order') !== 'asc') ids.reverse()
    const logs = ids.slice(offset, (offset ?? 0) + (limit || 50)).map(auditEntry)
    return { logs, count: logs.length, total: ids.length, limit: limit || 50, offset }
  }

  #answerOther(operation: string, path: string, body: Record<string, string>): Answer | undefined {
    const created_at = new Date().toISOString()
    const apiKey = { id: TENANT_ID, name: 'ci', prefix: 'eaas_sk_ab', status: 'active', created_at }
    if (operation === 'list api-keys') return ok({ api_keys: [{ ...apiKey, permissions: ['encrypt'] }], count: 1 })
    if (operation === 'create api-keys') return { status: 201, body: { ...apiKey, ...body, secret: 'eaas_sk_SHOWN' } }
    if (operation === 'update api-keys') {
      const kept = Object.entries(body).filter(([, value]) => value !== null) // null clears
      return ok({ ...apiKey, permissions: ['encrypt'], ...Object.fromEntries(kept) })
    }
    if (operation === 'revoke api-keys') return { status: 204, body: undefined }
    if (operation === 'tenant') {
      return ok({ tenant_id: TENANT_ID, name: 'acme', envelope_only: false, created_at, monthly_encrypt_quota: null })
    }
    if (operation === 'usage')
      return ok({ month: '2026-11', operations: { 'key.wrap': 3 }, unrecorded: [], by_api_key: [] })
    if (operation === 'health') {
      return ok({ status: 'healthy', database: 'up', cache: 'up', hsm: 'none', durability: 'synchronous' })
    }
    const key = this.#keys.get(body.key_id ?? '')
    if (key && path === '/v1/encrypt') return encrypt(key, body)
    if (key && path === '/v1/decrypt') return this.#decrypt(key, body)
    return undefined
  }

  #decrypt(key: ServiceKey, { wrapped_key = '', iv = '', ciphertext = '' }: Record<string, string>): Answer {
    const { status, body } = this.#unwrap(key, wrapped_key)
    if (status !== 200) return { status, body }
    const sealed = Buffer.from(ciphertext, 'base64')
    const dek = Buffer.from((body as { dek: string }).dek, 'base64')
    const decipher = createDecipheriv('aes-256-gcm', dek, Buffer.from(iv, 'base64')).setAuthTag(sealed.subarray(-16))
    const plaintext = Buffer.concat([decipher.update(sealed.subarray(0, -16)), decipher.final()])
    return ok({ plaintext: plaintext.toString('base64') })
  }

  #create(name: string): Answer {
    if ([...this.#keys.values()].some((key) => key.name === name)) return problem(409, 'Conflict', 'E_NAME_TAKEN')
    const key = this.#keys.get(this.createKey(name))
    return { status: 201, body: key && present(key) }
  }

  #unwrap(key: ServiceKey, wrapped_key: string, use = ''): Answer {
    const planted = this.planted.get(wrapped_key)
    if (planted) return ok({ dek: Buffer.from(planted).toString('base64'), key_id: key.id, key_version: 1 })
    const bytes = Buffer.from(wrapped_key, 'base64')
    // With a use, as in wrapped-key-v2.md 1; without one, this service's own form, which is opaque to clients.
    const token = use === '' ? bytes : bytes.subarray(4)
    const version = token.length > 0 ? token.readUInt8(0) : 0
    try {
      if (use !== '' && (bytes.length !== BOUND_BYTES || bytes.readUInt32BE(0) !== BOUND_HEAD))
        throw new Error('format')

      const decipher = createDecipheriv('aes-256-gcm', key.keks[version - 1] ?? '', token.subarray(1, 13))
      decipher.setAAD(Buffer.from(key.id + use)).setAuthTag(token.subarray(-16))
      const dek = Buffer.concat([decipher.update(token.subarray(13, -16)), decipher.final()])
      return ok({ dek: dek.toString('base64'), key_id: key.id, key_version: version })
    } catch {
      return problem(403, 'Forbidden', 'E_WRAPPED_KEY')
    }
  }
}

const BOUND_BYTES = 65
/** The format and the high bytes of the version. */
const BOUND_HEAD = 0x02000000

/** The use that a call states, as one text; '' if it states none. */
function useOf({ purpose, context }: Record<string, unknown>): string {
  if (purpose === undefined && context === undefined) return ''
  return JSON.stringify([purpose, Object.entries((context ?? {}) as object).sort()])
}

function wrap(key: ServiceKey, dek: string, use = ''): Answer {
  const iv = randomBytes(12)
  const version = key.keks.length
  const cipher = createCipheriv('aes-256-gcm', key.keks.at(-1) ?? '', iv).setAAD(Buffer.from(key.id + use))
  const sealed = Buffer.concat([cipher.update(Buffer.from(dek, 'base64')), cipher.final(), cipher.getAuthTag()])
  const head = Buffer.from(use === '' ? [version] : [2, 0, 0, 0, version])
  const wrapped_key = Buffer.concat([head, iv, sealed]).toString('base64')
  return ok({ wrapped_key, key_id: key.id, key_version: version })
}

/** RFC 9497, suite ristretto255-SHA512, verifiable mode. */
function blindKeys({ hashKey }: ServiceKey) {
  return ristretto255_oprf.voprf.deriveKeyPair(hashKey, Buffer.from('EaaS blind hash v1'))
}

function blindHash(key: ServiceKey, elements: readonly string[]): BlindHashed {
  const { secretKey, publicKey } = blindKeys(key)
  const blinded = elements.map((one) => new Uint8Array(Buffer.from(one, 'base64')))
  const { evaluated, proof } = ristretto255_oprf.voprf.blindEvaluateBatch(secretKey, publicKey, blinded)
  const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString('base64')
  return { elements: evaluated.map(base64), proof: base64(proof), key_id: key.id, suite: 'ristretto255-SHA512' }
}

/** The name that the tests give to an operation of a batch. */
function callOf({ op = '' }: Record<string, string>): string {
  return op === 'blind_hash' ? 'blindHash' : op
}

function encrypt(key: ServiceKey, { plaintext = '', encoding }: Record<string, string>): Answer {
  const [dek, iv] = [randomBytes(32), randomBytes(12)]
  const cipher = createCipheriv('aes-256-gcm', dek, iv)
  const bytes = Buffer.from(plaintext, encoding === 'base64' ? 'base64' : 'utf8')
  const sealed = Buffer.concat([cipher.update(bytes), cipher.final(), cipher.getAuthTag()])
  const wrapped = wrap(key, dek.toString('base64')).body as object
  return ok({ ...wrapped, ciphertext: sealed.toString('base64'), iv: iv.toString('base64') })
}

/** The operations of a request: itself and, for a batch, those in it. */
function asked({ operation, operations, body }: Recorded): readonly Record<string, string>[] {
  if (operation === 'batch') return [{ op: 'batch' }, ...operations.map((one) => ({ ...one, op: callOf(one) }))]
  return [{ ...(body.startsWith('{') ? (JSON.parse(body) as object) : {}), op: operation }]
}

/** What the service of the tests calls a request. */
export function operationOf(method: string, path: string): string {
  const [, , resource = '', id, action, further] = path.split('/')
  if (path.endsWith('/health')) return 'health'
  if (path.endsWith('/hash/blind')) return 'blindHash'
  if (['hash', 'batch', 'tenant', 'usage', 'encrypt', 'decrypt'].includes(resource)) return resource
  if (resource === 'api-keys') {
    const verbs: Record<string, string> = { GET: 'list', POST: 'create', PATCH: 'update', DELETE: 'revoke' }
    return `${verbs[method]} api-keys`
  }
  if (method === 'DELETE') return 'disable'
  if (action === 'versions') return 'destroy version'
  if (further) return further
  if (resource === 'audit') return id ?? 'audit'
  if (id === undefined) return method === 'POST' ? 'create' : 'list'
  return action === 'index-secret' ? 'indexSecret' : (action ?? 'get')
}

function present(key: ServiceKey) {
  const { id, name, keks, created_at } = key
  const version = keks.length
  const status = 'active'
  const names = {
    id,
    key_id: id,
    name,
    algorithm: 'AES-256-GCM',
    status,
    created_at,
    min_unwrap_version: 1,
    rotation: null,
  }
  return { ...names, current_version: version, key_version: version }
}

export function auditEntry(id: number) {
  const tenant_id = TENANT_ID
  const rest = { key_id: null, key_version: null, actor: 'system', ip_address: null, metadata: { a: [1] } }
  return { id, tenant_id, action: 'key.create', created_at: new Date().toISOString(), ...rest }
}

function ok(body: unknown): Answer {
  return { status: 200, body }
}

export function problem(
  status: number,
  title: string,
  code: string,
  detail = `${code}: as asked for by the test`,
): Answer {
  return { status, body: { type: 'about:blank', title, status, detail, code } }
}

/** Sends an answer as the contract says. */
export function send(response: ServerResponse, { status, body }: Answer): void {
  if (status === 204) return void response.writeHead(204, { 'x-request-id': 'req-1' }).end()
  const type = status < 400 ? 'application/json; charset=utf-8' : 'application/problem+json'
  response.writeHead(status, { 'content-type': type, 'x-request-id': 'req-1' })
  response.end(JSON.stringify(body))
}
