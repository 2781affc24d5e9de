// What the servers saw and what the audit log says, for the panels: kept for a while, and sent to the pages as it comes.

/** @import { Client, Entry } from '@eaas/sdk' */
/** @import { ServerResponse } from 'node:http' */

const SHOWN = 20
/** Events within this time are sent to the pages as one. */
const PAUSE_MS = 60

/** @typedef {{ at: string, by: 'EaaS' | 'application', what: string, user: string, body: unknown }} Seen */

/** @param {Client} auditor a client that may read the audit log */
export function createLive(auditor) {
  /** @type {Seen[]} */
  const seen = []
  /** @type {Set<ServerResponse>} */
  const pages = new Set()
  /** @type {NodeJS.Timeout | undefined} */
  let timer
  let count = 0

  const send = async () => {
    timer = undefined
    const [{ logs }, { valid, total_entries }] = await Promise.all([
      auditor.audit.list({ limit: SHOWN }),
      auditor.audit.verify(),
    ])
    const live = { seen, entries: logs.map(entryOf), chain: { valid, total: total_entries } }
    for (const page of pages) page.write(`data: ${JSON.stringify(live)}\n\n`)
  }
  const tell = () => {
    timer ??= setTimeout(() => send().catch((error) => console.error(error)), PAUSE_MS)
  }
  return {
    /**
     * Notes what a server was sent.
     *
     * @param {Omit<Seen, 'at'>} request
     */
    note(request) {
      const at = new Date(Date.now() + ++count / 1_000).toISOString() // the page tells requests apart by it
      seen.unshift({ at, ...request })
      seen.splice(SHOWN)
      tell()
    },
    /**
     * Sends a page all new events, until the user leaves it.
     *
     * @param {ServerResponse} response
     */
    add(response) {
      response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' })
      pages.add(response)
      response.once('close', () => pages.delete(response))
      tell()
    },
    close() {
      clearTimeout(timer)
      for (const page of pages) page.end()
    },
  }
}

/** @param {Entry} entry */
function entryOf({ id, action, created_at, actor, metadata }) {
  const { on_behalf_of } = /** @type {{ on_behalf_of?: string }} */ (metadata ?? {})
  return { id, action, created_at, actor: actor === 'system' ? 'the operator' : 'an API key', on_behalf_of }
}

/**
 * A `fetch` for the broker that notes what EaaS is sent. Secrets are described instead of shown: the data key, which
 * EaaS gets to wrap.
 *
 * @param {ReturnType<typeof createLive>} live
 * @returns {typeof fetch}
 */
export function noting(live) {
  return (input, init) => {
    const { op, body } = described(String(input), JSON.parse(String(init?.body)))
    live.note({ by: 'EaaS', what: op, user: new Headers(init?.headers).get('eaas-on-behalf-of') ?? '', body })
    return fetch(input, init)
  }
}

/**
 * @param {string} url
 * @param {Record<string, unknown>} body
 */
function described(url, body) {
  const operations = /** @type {Record<string, string>[] | undefined} */ (body.operations)
  if (!operations) return { op: url.split('/').at(-1) ?? '', body: withoutSecrets(/** @type {any} */ (body)) }
  const names = [...new Set(operations.map((one) => one.op ?? ''))]
  const counts = names.map((name) => ({ name, count: operations.filter((one) => one.op === name).length }))
  const op = counts.map(({ name, count }) => (count === 1 ? name : `${count} × ${name}`)).join(', ')
  return { op, body: { operations: operations.map(withoutSecrets) } }
}

/** @param {Record<string, string>} operation */
function withoutSecrets({ dek, ...rest }) {
  return {
    ...rest,
    ...(dek === undefined ? {} : { dek: '(a random data key, to be wrapped; not shown here)' }),
  }
}
