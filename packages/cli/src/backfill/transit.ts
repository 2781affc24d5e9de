/** Reads what the transit engine of HashiCorp Vault or OpenBao encrypted, `vault:v1:…`, over its HTTP API. */
import { setImmediate } from 'node:timers/promises'
import { decodeBase64, decodeUtf8 } from '@eaas/protocol'
import { ContentError, InvalidInputError, NetworkError } from '@eaas/sdk'
import { assertFlag, assertOptions, kindOf, type Reader, type Row, spelledAs } from '@eaas/sdk/maintenance'
import { askWithRow, ROW_HINT } from './table.js'

const STORED = /^vault:v\d+:[\w+/-]+={0,2}$/
const BATCH_VALUES = 200

/** A request to the transit engine. Throws or rejects if there is no answer. */
export type TransitPost = (path: string, body: string) => Promise<{ status: number; body: unknown }>

export interface TransitOptions {
  /**
   * Sends a POST to a path of the API, with your Vault's address and token. Returns the status and the parsed JSON:
   * `async (path, body) => { const answer = await fetch(address + path, { method: 'POST', body, headers: {
   * 'X-Vault-Token': token } }); return { status: answer.status, body: await answer.json() } }`.
   */
  post: TransitPost
  /** The name of the key. */
  key: string
  /** Where the engine is mounted; `transit` by default. */
  mount?: string | undefined
  /** For a `derived` key: the context of all values in base64, or a function that returns a row's. */
  context?: string | ((row: Readonly<Row>) => string) | undefined
  /** Whether the values were text (the default) or bytes before they were encrypted. */
  as?: 'text' | 'bytes' | undefined
  /** If `true`, also takes values that do not begin with `vault:` as plaintext. */
  acceptPlaintext?: boolean | undefined
}

interface Waiter {
  input: { ciphertext: string; context?: string }
  resolve(plaintext: string): void
  reject(error: unknown): void
}

/**
 * Makes a reader that has Vault or OpenBao decrypt, up to 200 values in a request. Needs a token with `update` on
 * `transit/decrypt/<key>`. If the engine refuses a value, its row fails; an answer without results ends the run with
 * `E_NETWORK`.
 * @throws InvalidInputError when an option is wrong
 */
export function transitReader(options: TransitOptions): Reader {
  assertOptions('transitReader()', options, OPTIONS)
  const { post, key, mount = 'transit', context, as = 'text', acceptPlaintext } = options
  assertFlag('acceptPlaintext', acceptPlaintext)
  if (typeof post !== 'function') throw new InvalidInputError(`post must be a function, got ${kindOf(post)}`)
  if (typeof key !== 'string' || key === '') throw new InvalidInputError('key must be the name of a key of transit')
  if (as !== 'text' && as !== 'bytes') throw new InvalidInputError('as must be text or bytes')
  const path = `/v1/${mount}/decrypt/${encodeURIComponent(key)}`
  let waiting: Waiter[] = []
  const flush = async () => {
    await setImmediate() // collects all values of a page, which ask in the same turn
    const all = waiting
    waiting = []
    for (let start = 0; start < all.length; start += BATCH_VALUES)
      await decrypt(post, path, all.slice(start, start + BATCH_VALUES))
  }
  return async (stored, row) => {
    const ciphertext = spelledAs('transit', stored)
    if (ciphertext === undefined && acceptPlaintext && !String(stored).startsWith('vault:')) return stored
    if (ciphertext === undefined || !STORED.test(ciphertext)) throw refused()
    const input = { ciphertext, ...(context !== undefined && { context: contextFor(context, row) }) }
    const opened = new Promise<string>((resolve, reject) => {
      waiting.push({ input, resolve, reject })
    })
    if (waiting.length === 1) void flush()
    const plaintext = await opened
    try {
      const bytes = decodeBase64(plaintext)
      return as === 'bytes' ? bytes : decodeUtf8(bytes)
    } catch {
      throw refused()
    }
  }
}

const OPTIONS = ['post', 'key', 'mount', 'context', 'as', 'acceptPlaintext'] satisfies (keyof TransitOptions)[]

function contextFor(context: NonNullable<TransitOptions['context']>, row: Readonly<Row>): string {
  const made = typeof context === 'function' ? askWithRow('context', context, row) : context
  if (typeof made === 'string' && made !== '') return made
  throw new ContentError('`context` returned no text for the row', `Return it in base64. ${ROW_HINT}`)
}

async function decrypt(post: TransitPost, path: string, some: readonly Waiter[]) {
  const batch_input = some.map(({ input }) => input)
  try {
    const { status, body } = await post(path, JSON.stringify({ batch_input }))
    const results = (body as { data?: { batch_results?: unknown } } | null)?.data?.batch_results
    // The answer to a batch with failures is 400, in some versions 200, with a result for each value.
    if (!Array.isArray(results) || results.length !== some.length) {
      for (const { reject } of some) reject(away(`transit answered ${Number(status)} without results`))
      return
    }
    for (const [at, { resolve, reject }] of some.entries()) {
      const { plaintext, error } = (results[at] ?? {}) as { plaintext?: unknown; error?: unknown }
      if (typeof plaintext === 'string' && !error) resolve(plaintext)
      else reject(refused())
    }
  } catch {
    for (const { reject } of some) reject(away('transit did not answer')) // the error may contain the token
  }
}

function refused(): ContentError {
  return new ContentError('not a value that transit decrypts', 'Check the key, its versions and the context.')
}

function away(message: string): NetworkError {
  const hint = 'Check the address, the name of the key, the token and its policy, and run it again.'
  return new NetworkError(message, hint, true)
}
