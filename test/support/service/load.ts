// Clients that call servers, each with an API key of its own. Each keeps a ledger: it writes down what it sends before
// the call, and what was acknowledged after it. Every acknowledged call that writes an entry must be in the audit log.
import { randomBytes, randomInt } from 'node:crypto'
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'

/** A call that takes longer than this, in milliseconds, counts as hung. */
const HUNG_MS = 40_000
const PAUSE_MS = 20
const KEPT_KEYS = 16
const KEPT_TOKENS = 512

/** How often each operation is drawn, relative to the others. */
export type Mix = Partial<Record<Operation, number>>
type Operation = 'unwrap' | 'wrap' | 'hash' | 'create' | 'rotate'
const MIXED: Mix = { unwrap: 44, wrap: 40, hash: 12, create: 2, rotate: 2 }

/** One call in the ledger. The audit log may or may not have an unanswered call; it never has an unsent one. */
export interface LedgerEntry {
  /** the action of the entry that the call writes; undefined if it writes none */
  action: string | undefined
  /** known from the start or from the answer */
  key_id: string | undefined
  key_version: number | undefined
  state: 'sent' | 'acked' | 'unsent'
}

/** A DEK and the answer that acknowledged its wrap. */
export interface Wrapped {
  key_id: string
  key_version: number
  wrapped_key: string
  dek: string
}

export interface Load {
  /** the calls of each client in their order, by the id of its API key, as the log names its actor */
  ledgers: ReadonlyMap<string, readonly LedgerEntry[]>
  /** every wrap that was acknowledged */
  wraps: readonly Wrapped[]
  /** what must never happen: a refusal, a wrong DEK or hash, a call that hangs */
  surprises: readonly string[]
  /** the number of answers with a 5xx */
  failures(): number
  acked(): number
  /** Sends no more calls, and waits until those under way end. */
  stop(): Promise<void>
}

export interface LoadOptions {
  /** returns the URL for a client's next call; undefined while no server is up, so the client waits */
  target: (client: number) => string | undefined
  /** an API key with every permission */
  secret: string
  clients: number
  mix?: Mix
  /** how long a client waits after an acknowledged call, in milliseconds; 0 by default. Called once for each call. */
  pauseMs?: () => number
  /** called with how long each acknowledged call took, in milliseconds */
  onAcked?: (tookMs: number) => void
}

/** Makes the clients' API keys and a first key, and starts. */
export async function startLoad({
  target,
  secret,
  clients,
  mix = MIXED,
  pauseMs = () => 0,
  onAcked,
}: LoadOptions): Promise<Load> {
  const ledgers = new Map<string, LedgerEntry[]>()
  const wraps: Wrapped[] = []
  const surprises: string[] = []
  const hashes = new Map<string, string>()
  let failures = 0
  let acked = 0
  let stopping = false

  const owner = callsOf(secret)
  const first = await owner(target(0), 'POST', '/v1/keys', { name: `load ${randomBytes(6).toString('hex')}` })
  if (first.status !== 201) throw new Error(`the first key of the load was answered ${first.status}`)
  const keys: string[] = [first.body.id]
  const tokens: Wrapped[] = []

  async function run(client: number): Promise<void> {
    const created = await owner(target(client), 'POST', '/v1/api-keys', {
      name: `client ${client}`,
      permissions: ['encrypt', 'decrypt', 'keys:create', 'keys:rotate', 'keys:read'],
    })
    if (created.status !== 201) throw new Error(`the API key of a client was answered ${created.status}`)
    const call = callsOf(created.body.secret)
    const ledger: LedgerEntry[] = []
    ledgers.set(created.body.id, ledger)
    loops.push(loop(client, call, ledger))
  }

  async function loop(client: number, call: Calls, ledger: LedgerEntry[]): Promise<void> {
    while (!stopping) {
      const url = target(client)
      if (url === undefined) await sleep(PAUSE_MS)
      else if (!(await step(draw(), url, call, ledger))) await sleep(PAUSE_MS)
      else {
        const pause = pauseMs()
        if (pause > 0) await sleep(pause)
      }
    }
  }

  function draw(): Operation {
    const wanted = tokens.length === 0 ? { wrap: 1 } : mix
    const entries = Object.entries(wanted) as [Operation, number][]
    let left = randomInt(entries.reduce((sum, [, weight]) => sum + weight, 0))
    for (const [operation, weight] of entries) {
      left -= weight
      if (left < 0) return operation
    }
    throw new Error('the weights of the mix do not sum up')
  }

  /** Makes one call, and writes the ledger before and after it. False when it was not acknowledged. */
  async function step(operation: Operation, url: string, call: Calls, ledger: LedgerEntry[]): Promise<boolean> {
    const plan = planOf(operation)
    const { action, key_id, key_version } = plan
    const entry: LedgerEntry = { action, key_id, key_version, state: 'sent' }
    ledger.push(entry)
    const from = performance.now()
    let answer: Answer
    try {
      answer = await call(url, 'POST', plan.path, plan.body)
    } catch (error) {
      const { code, message } = error as NodeJS.ErrnoException
      if (code === 'ECONNREFUSED') entry.state = 'unsent'
      else if (code === HUNG) surprises.push(`${operation}: ${message}`)
      return false
    }
    if (answer.status >= 500) {
      failures += 1
      return false
    }
    if (answer.status >= 300) {
      entry.state = 'unsent'
      surprises.push(`${operation} was answered ${answer.status}: ${JSON.stringify(answer.body)}`)
      return false
    }
    entry.state = 'acked'
    acked += 1
    onAcked?.(performance.now() - from)
    plan.onAnswer(answer.body, entry)
    return true
  }

  interface Plan extends Pick<LedgerEntry, 'action' | 'key_id' | 'key_version'> {
    path: string
    body?: unknown
    onAnswer: (body: Answer['body'], entry: LedgerEntry) => void
  }

  function planOf(operation: Operation): Plan {
    const key_id = anyOf(keys)
    switch (operation) {
      case 'create':
        return {
          action: 'key.create',
          key_id: undefined,
          key_version: 1,
          path: '/v1/keys',
          body: { name: randomBytes(12).toString('hex') },
          onAnswer(body, entry) {
            entry.key_id = body.id
            keep(keys, body.id, KEPT_KEYS)
          },
        }
      case 'rotate':
        return {
          action: 'key.rotate',
          key_id,
          key_version: undefined,
          path: `/v1/keys/${key_id}/rotate`,
          onAnswer(body, entry) {
            entry.key_version = body.current_version
          },
        }
      case 'wrap': {
        const dek = randomBytes(32).toString('base64')
        return {
          action: 'key.wrap',
          key_id,
          key_version: undefined,
          path: `/v1/keys/${key_id}/wrap`,
          body: { dek },
          onAnswer({ wrapped_key, key_version }, entry) {
            entry.key_version = key_version
            const wrapped = { key_id, key_version, wrapped_key, dek }
            wraps.push(wrapped)
            keep(tokens, wrapped, KEPT_TOKENS)
          },
        }
      }
      case 'unwrap': {
        const { key_id, key_version, wrapped_key, dek } = anyOf(tokens)
        return {
          action: 'key.unwrap',
          key_id,
          key_version,
          path: `/v1/keys/${key_id}/unwrap`,
          body: { wrapped_key },
          onAnswer(body) {
            if (body.dek !== dek) surprises.push(`unwrap under key ${key_id} gave another DEK`)
          },
        }
      }
      case 'hash':
        return {
          action: undefined,
          key_id,
          key_version: undefined,
          path: '/v1/hash',
          body: { key_id, value: 'ada@example.org' },
          onAnswer({ hash }) {
            if ((hashes.get(key_id) ?? hash) !== hash) surprises.push(`the hash under key ${key_id} is another one`)
            hashes.set(key_id, hash)
          },
        }
    }
  }

  const loops: Promise<void>[] = []
  for (let client = 0; client < clients; client++) await run(client)
  return {
    ledgers,
    wraps,
    surprises,
    failures: () => failures,
    acked: () => acked,
    async stop() {
      stopping = true
      await Promise.all(loops)
    },
  }
}

export interface Answer {
  status: number
  // biome-ignore lint/suspicious/noExplicitAny: the callers look at the fields that they expect, whatever the answer is
  body: any
}

export type Calls = (url: string | undefined, method: string, path: string, body?: unknown) => Promise<Answer>

const HUNG = 'E_HUNG'

/** Calls with one API key over one connection, which is kept alive. Never repeats a call. */
export function callsOf(secret: string): Calls {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  return (url, method, path, body) =>
    new Promise((resolve, reject) => {
      if (url === undefined) throw new Error('there is no server to call')
      const payload = body === undefined ? undefined : JSON.stringify(body)
      const headers = {
        authorization: `Bearer ${secret}`,
        ...(payload === undefined
          ? {}
          : { 'content-type': 'application/json', 'content-length': Buffer.byteLength(payload) }),
      }
      const sent = request(url + path, { method, agent, headers }, (response) => {
        let text = ''
        response.setEncoding('utf8')
        response.on('data', (part: string) => {
          text += part
        })
        response.on('error', reject)
        response.on('end', () => {
          if (!response.complete) return reject(new Error('the answer was cut off'))
          const isJson = /json/.test(response.headers['content-type'] ?? '') // the page of a proxy is not
          resolve({ status: response.statusCode ?? 0, body: isJson ? JSON.parse(text) : text || undefined })
        })
      })
      sent.on('error', reject)
      sent.setTimeout(HUNG_MS, () => {
        sent.destroy(Object.assign(new Error(`no answer within ${HUNG_MS} ms`), { code: HUNG }))
      })
      sent.end(payload)
    })
}

function anyOf<T>(list: readonly T[]): T {
  return list[randomInt(list.length)] as T
}

/** Adds to a list of at most `most` items; if it is full, the new item replaces a random one. */
function keep<T>(list: T[], item: T, most: number): void {
  if (list.length < most) list.push(item)
  else list[randomInt(most)] = item
}
