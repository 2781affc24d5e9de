// A tenant with a log of any length on PostgreSQL, made while no server runs. A seed determines who did what, and when.
import postgres from 'postgres'
import { createKey } from '../../../packages/server/src/core/api/keys.js'
import { readConfig } from '../../../packages/server/src/core/config.js'
import { performAsSystem } from '../../../packages/server/src/core/runner/perform.js'
import { openInstallation } from '../../../packages/server/src/installation.js'
import { createTenant } from '../../../packages/server/src/operators/tenants.js'
import { growChain } from './long-chain.js'

const KEYS = 50

export interface LongLog {
  tenant_id: string
  secret: string
  /** the key that most entries belong to */
  bigKey: string
  /** an action that few entries of that key have */
  rareAction: 'key.export'
}

export interface LongLogOptions {
  url: string
  /** base64 */
  rootKey: string
  name: string
  entries: number
  /** milliseconds since 1970 */
  from: number
  to: number
}

/** Makes the tenant, whose server mode is open, its keys and its log. 60 of 100 entries belong to one key; one in 25,000 is a rare action on it. */
export async function makeLongLog({ url, rootKey, name, entries, from, to }: LongLogOptions): Promise<LongLog> {
  // The database's clock is right, and this one is set to the log's beginning.
  const config = readConfig({ EAAS_DATABASE_URL: url, EAAS_ROOT_KEY: rootKey, EAAS_MAX_CLOCK_SKEW_SECONDS: '0' })
  const installation = await openInstallation({
    config,
    onAlarm: (message) => {
      throw new Error(message)
    },
    now: () => from,
  })
  const { services } = installation
  const tenant = await createTenant(services, { name, envelope_only: false })
  const { tenant_id, api_key } = tenant
  const keys: string[] = []
  for (let at = 0; at < KEYS; at++) {
    const key = await performAsSystem(services, tenant_id, createKey({ name: `key ${at}` }))
    keys.push(key.id)
  }
  await installation.close()
  const [bigKey = ''] = keys

  const sql = postgres(url, { max: 1, onnotice: () => undefined })
  const random = randomFrom(1)
  const ACTIONS = ['key.unwrap', 'key.wrap', 'key.unwrap', 'encrypt'] as const
  try {
    await growChain(sql, {
      tenant_id,
      rootKey,
      entries,
      from,
      to,
      draft(at) {
        const isRare = at % 25_000 === 12_345
        const key_id = isRare || random() < 0.6 ? bigKey : (keys[1 + Math.floor(random() * (KEYS - 1))] ?? bigKey)
        const action = isRare ? 'key.export' : (ACTIONS[Math.floor(random() * ACTIONS.length)] ?? 'key.wrap')
        return { action, key_id, key_version: 1, actor: api_key.id, ip_address: '192.0.2.7', metadata: null }
      },
    })
  } finally {
    await sql.end()
  }
  return { tenant_id, secret: api_key.secret, bigKey, rareAction: 'key.export' }
}

/** Generates the same numbers from 0 to 1 in each run (mulberry32). */
export function randomFrom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
