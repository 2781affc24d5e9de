// Honest histories of a tenant: its log must verify after anything that happens to it except tampering.
import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import type postgres from 'postgres'
import { splitLines } from '../../../packages/audit/src/verify/split-lines.js'
import { verifyExport } from '../../../packages/audit/src/verify/verify-export.js'
import { exportAudit } from '../../../packages/server/src/core/api/audit-export.js'
import { rotateKey } from '../../../packages/server/src/core/api/key-rotation.js'
import { createKey } from '../../../packages/server/src/core/api/keys.js'
import { doDueWork } from '../../../packages/server/src/core/jobs/due-work.js'
import type { Operation } from '../../../packages/server/src/core/runner/operation.js'
import { performAsSystem } from '../../../packages/server/src/core/runner/perform.js'
import { anchorNow } from '../../../packages/server/src/guard/anchor-heads.js'
import { purgeTenant } from '../../../packages/server/src/operate/jobs/purge-tenants.js'
import { resumeTenant, suspendTenant, updateTenant } from '../../../packages/server/src/operators/tenants.js'
import { checkTenant } from '../../independent/checker.js'
import { openAuditKey } from '../../independent/stored.js'
import { readNote, verifyIndependently } from '../../independent/verifier.js'
import { freshDatabase, type TestDatabase } from '../../support/database/database.js'
import { startLoad } from '../../support/service/load.js'
import { type Answer, type Caller, ROOT_KEY, type Service, startService } from '../../support/service/service.js'

const DAY_MS = 86_400_000
const START = Date.parse('2026-02-01T12:00:00.000Z')
const SHORTEST_HISTORY = 8
const LONGEST_HISTORY = 40
/** How often each event is drawn, relative to the others. */
const EVENTS = {
  create: 6,
  createSameName: 2,
  wrap: 12,
  unwrap: 8,
  unwrapForged: 3,
  rotate: 5,
  policy: 3,
  update: 3,
  destroyVersion: 3,
  dueWork: 2,
  disable: 4,
  enable: 3,
  destroy: 3,
  cancel: 2,
  export: 2,
  encrypt: 5,
  decrypt: 2,
  openServerMode: 3,
  quota: 2,
  createApiKey: 4,
  updateApiKey: 3,
  revokeApiKey: 3,
  revokeSelf: 2,
  callRevoked: 2,
  callNothing: 2,
  batch: 4,
  burst: 5,
  raceRights: 4,
  rollBackCreate: 3,
  rollBackRotate: 3,
  pass: 6,
  clockBack: 2,
  purge: 6,
  checkpoint: 3,
  verify: 3,
  anchor: 3,
  anotherTenant: 1,
  restart: 1,
} as const satisfies Record<string, number>
type EventName = keyof typeof EVENTS

export interface Step {
  event: EventName
  /** which key, API key or wrapped key: an index, modulo the number of those that exist */
  which: number
}

/** Any history: a list of events with their objects. */
export const histories: fc.Arbitrary<Step[]> = fc.array(
  fc.record({
    event: fc.oneof(
      ...Object.entries(EVENTS).map(([name, weight]) => ({ weight, arbitrary: fc.constant(name as EventName) })),
    ),
    which: fc.nat(1_000),
  }),
  { minLength: SHORTEST_HISTORY, maxLength: LONGEST_HISTORY, size: 'max' },
)

/** The first steps of every history: without keys, most of its calls would fail with "not found". */
const BEGINNING: readonly Step[] = (
  ['create', 'create', 'wrap', 'createApiKey', 'rotate', 'wrap', 'update'] as const
).map((event, which) => ({
  event,
  which,
}))

/** A service that can be closed and started again on its database, with a clock that tests set. */
export interface World {
  service: Service
  now: number
  restart(): Promise<void>
  close(): Promise<void>
}

/** Starts a service for histories. */
export async function startWorld(): Promise<World> {
  const database: TestDatabase = await freshDatabase('honest', { migrated: true })
  const start = () => startService({ database, now: () => world.now })
  const world: World = {
    service: undefined as unknown as Service,
    now: START,
    async restart() {
      await world.service.close()
      world.service = await start()
    },
    close: () => world.service.close(),
  }
  world.service = await start()
  return world
}

/** The outcome of the histories, for the output of the run. */
export interface Figures {
  histories: number
  events: number
  entries: number
  refused: number
  purges: number
  restarts: number
  rolledBack: number
  verifications: number
}

export function newFigures(): Figures {
  const none = { histories: 0, events: 0, entries: 0, refused: 0, purges: 0, restarts: 0, rolledBack: 0 }
  return { ...none, verifications: 0 }
}

class RolledBackError extends Error {}

/** Runs a history with a tenant of its own; returns what verifications of its log find wrong, during it and at its end. */
export async function findFalseAlarm(world: World, steps: readonly Step[], figures: Figures): Promise<string[]> {
  const history = new History(
    world,
    await world.service.createTenant({ name: randomBytes(8).toString('hex') }),
    figures,
  )
  for (const step of [...BEGINNING, ...steps]) await history.live(step)
  figures.histories += 1
  figures.events += steps.length
  return history.verify()
}

class History {
  #keys: { id: string; name: string }[] = []
  #apiKeys: { id: string; secret: string }[] = []
  #tokens: { key_id: string; wrapped_key: string }[] = []
  #bundles: Record<string, unknown>[] = []
  #note: { note: string; publicKey: string } | undefined
  #alarms: string[] = []

  constructor(
    readonly world: World,
    readonly owner: Caller,
    readonly figures: Figures,
  ) {}

  get #id(): string {
    return this.owner.tenant.tenant_id
  }

  // The port changes with each restart.
  async #call(method: string, path: string, body?: unknown, secret = this.owner.secret): Promise<Answer<Any>> {
    const answer = await this.world.service.caller(secret).call<Any>(method, path, body)
    if (answer.status >= 400) this.figures.refused += 1
    if (answer.status >= 500)
      this.#alarms.push(`${method} ${path} was answered ${answer.status}: ${JSON.stringify(answer.body)}`)
    return answer
  }

  async live({ event, which }: Step): Promise<void> {
    const { world } = this
    const key = this.#keys[which % this.#keys.length] ?? { id: crypto.randomUUID(), name: 'none' }
    const apiKey = this.#apiKeys[which % this.#apiKeys.length] ?? { id: crypto.randomUUID(), secret: this.owner.secret }
    const token = this.#tokens[which % this.#tokens.length] ?? {
      key_id: key.id,
      wrapped_key: randomBytes(65).toString('base64'),
    }
    const path = `/v1/keys/${key.id}`
    const events: Record<EventName, () => unknown> = {
      create: () => this.#create(randomBytes(6).toString('hex')),
      createSameName: () => this.#create(key.name),
      wrap: () => this.#wrap(key.id),
      unwrap: () => this.#call('POST', `/v1/keys/${token.key_id}/unwrap`, { wrapped_key: token.wrapped_key }),
      unwrapForged: () => this.#call('POST', `${path}/unwrap`, { wrapped_key: randomBytes(65).toString('base64') }),
      rotate: () => this.#call('POST', `${path}/rotate`),
      policy: () =>
        this.#call('PATCH', `${path}/rotation`, { interval_days: which % 4 === 0 ? null : (which % 4) * 10 }),
      update: () => this.#call('PATCH', path, { min_unwrap_version: 1 + ((which >> 1) % 2) }),
      destroyVersion: () => this.#call('POST', `${path}/versions/${1 + (which % 2)}/destroy`, { confirm: key.name }),
      dueWork: () => doDueWork(world.service.services, { onError: (error) => this.#alarms.push(`due work: ${error}`) }),
      disable: () => this.#call('DELETE', path),
      enable: () => this.#call('POST', `${path}/enable`),
      destroy: () => this.#call('POST', `${path}/destroy`, { confirm: key.name }),
      cancel: () => this.#call('POST', `${path}/destroy/cancel`),
      export: () => this.#call('POST', `${path}/export`),
      encrypt: () => this.#encrypt(key.id),
      decrypt: () => this.#call('POST', '/v1/decrypt', this.#bundles[which % this.#bundles.length] ?? {}),
      openServerMode: () => this.#system(updateTenant({ envelope_only: which % 2 === 0 })),
      quota: () => this.#system(updateTenant({ monthly_encrypt_quota: which % 3 === 0 ? null : which % 3 })),
      createApiKey: () => this.#createApiKey(which),
      updateApiKey: () =>
        this.#call(
          'PATCH',
          `/v1/api-keys/${apiKey.id}`,
          which % 2 === 0 ? { name: `n${which}` } : { permissions: ['encrypt'] },
        ),
      revokeApiKey: () => this.#call('DELETE', `/v1/api-keys/${apiKey.id}`),
      revokeSelf: () => this.#call('DELETE', '/v1/api-keys/self', undefined, apiKey.secret),
      callRevoked: () => this.#call('POST', `${path}/wrap`, { dek: dek() }, apiKey.secret),
      callNothing: () => this.#call('POST', `/v1/keys/${crypto.randomUUID()}/wrap`, { dek: dek() }),
      batch: () => this.#batch(key.id, token),
      burst: () => this.#burst(key.id, which),
      raceRights: () => this.#raceRights(key.id, token, which),
      rollBackCreate: () => this.#rollBack(createKey({ name: randomBytes(6).toString('hex') })),
      rollBackRotate: () => this.#rollBack(rotateKey({ key_id: key.id })),
      pass: () => {
        world.now += (1 + (which % 45)) * DAY_MS + which
      },
      clockBack: () => {
        world.now -= (which % 3_600) * 1_000
      },
      purge: () => this.#purge(which),
      checkpoint: () => this.#keepCheckpoint(),
      verify: async () => {
        this.#alarms.push(...(await this.#verifyNow()))
      },
      anchor: () => anchorNow(world.service.services, { evenIfSame: which % 2 === 0 }),
      anotherTenant: () => world.service.createTenant({ name: randomBytes(8).toString('hex') }),
      restart: () => this.#restart(),
    }
    await events[event]()
  }

  async #create(name: string): Promise<void> {
    const { status, body } = await this.#call('POST', '/v1/keys', { name })
    if (status === 201) this.#keys.push({ id: body.id, name })
  }

  async #wrap(key_id: string): Promise<void> {
    const { status, body } = await this.#call('POST', `/v1/keys/${key_id}/wrap`, { dek: dek() })
    if (status === 200) this.#tokens.push({ key_id, wrapped_key: body.wrapped_key })
  }

  async #encrypt(key_id: string): Promise<void> {
    const { status, body } = await this.#call('POST', '/v1/encrypt', { key_id, plaintext: 'x' })
    if (status === 200) this.#bundles.push(body)
  }

  async #createApiKey(which: number): Promise<void> {
    const expires_at = which % 3 === 0 ? new Date(this.world.now + 20 * DAY_MS).toISOString() : null
    const body = { name: `client ${which}`, permissions: ['encrypt', 'decrypt'], expires_at }
    const answer = await this.#call('POST', '/v1/api-keys', body)
    if (answer.status === 201) this.#apiKeys.push(answer.body)
  }

  async #batch(
    key_id: string,
    token: { key_id: string; wrapped_key: string },
    secret = this.owner.secret,
  ): Promise<void> {
    const operations = [
      { op: 'wrap', key_id, dek: dek() },
      { op: 'unwrap', ...token },
      { op: 'encrypt', key_id, plaintext: 'x' },
      { op: 'wrap', key_id: crypto.randomUUID(), dek: dek() },
    ]
    await this.#call('POST', '/v1/batch', { operations }, secret)
  }

  /** Makes concurrent calls, some of which change rights, and verifies meanwhile. */
  async #burst(key_id: string, which: number): Promise<void> {
    await Promise.all([
      ...Array.from({ length: 6 }, () => this.#wrap(key_id)),
      this.#create(`burst ${randomBytes(4).toString('hex')}`),
      which % 2 === 0 ? this.#call('POST', `/v1/keys/${key_id}/rotate`) : this.#createApiKey(which),
      this.#encrypt(key_id),
      this.#verifyNow().then((faults) => this.#alarms.push(...faults)),
    ])
  }

  /** Makes concurrent calls by an API key while its permissions, the tenant's status and the tenant's server mode change. */
  async #raceRights(key_id: string, token: { key_id: string; wrapped_key: string }, which: number): Promise<void> {
    const permissions = ['api_keys:manage', 'decrypt', 'encrypt']
    const { status, body } = await this.#call('POST', '/v1/api-keys', { name: `racer ${which}`, permissions })
    if (status !== 201) return
    const { id, secret } = body
    this.#apiKeys.push(body)
    const changeRights = async () => {
      await this.#call('PATCH', `/v1/api-keys/${id}`, { permissions: permissions.slice(which % 2) })
      await this.#call('PATCH', `/v1/api-keys/${id}`, { permissions: ['hash'] })
      if (which % 3 === 0) await this.#call('DELETE', `/v1/api-keys/${id}`)
    }
    const changeTenant = async () => {
      await this.#system(suspendTenant({}))
      await this.#system(resumeTenant({}))
      await this.#system(updateTenant({ envelope_only: which % 2 === 0 }))
      await this.#system(updateTenant({ envelope_only: which % 2 === 1 }))
    }
    const act = async () => {
      await this.#call('POST', `/v1/keys/${key_id}/wrap`, { dek: dek() }, secret)
      await this.#call('POST', `/v1/keys/${token.key_id}/unwrap`, { wrapped_key: token.wrapped_key }, secret)
      await this.#call('POST', '/v1/encrypt', { key_id, plaintext: 'x' }, secret)
      await this.#call('POST', `/v1/keys/${token.key_id}/rewrap`, { wrapped_key: token.wrapped_key }, secret)
      await this.#call('POST', '/v1/api-keys', { name: 'granted', permissions: ['decrypt', 'hash'] }, secret)
      await this.#batch(key_id, token, secret)
    }
    const verify = async () => this.#alarms.push(...(await verifyBeside(this.world.service, this.#id)))
    await Promise.all([act(), act(), act(), changeRights(), changeTenant(), verify()])
  }

  async #system(operation: Operation<unknown>): Promise<void> {
    await performAsSystem(this.world.service.services, this.#id, operation)
  }

  /** Writes the rows of a change, and then fails its transaction. */
  async #rollBack(operation: Operation<unknown>): Promise<void> {
    const failing: Operation<unknown> = async (context) => {
      const decision = await operation(context)
      return {
        ...decision,
        async change(sql, at) {
          await decision.change?.(sql, at)
          throw new RolledBackError('rolled back')
        },
      }
    }
    try {
      await this.#system(failing)
      throw new Error('the change was to fail')
    } catch (error) {
      const { cause, name } = error as Error
      if (!(cause instanceof RolledBackError) && name !== 'Refusal') throw error
      if (cause instanceof RolledBackError) this.figures.rolledBack += 1
    }
  }

  async #purge(which: number): Promise<void> {
    if (which % 2 === 0) this.world.now += 33 * DAY_MS // now every entry is older than the retention
    try {
      const options = { retentionMonths: 1, maxShare: which % 4 === 0 ? 0.5 : 1 }
      const { entries } = await purgeTenant(this.world.service.services, this.#id, options)
      if (entries > 0) this.figures.purges += 1
    } catch (error) {
      if ((error as Error).name !== 'Refusal') throw error // refused: it would take more than the share, or nothing was written for a year
    }
  }

  async #keepCheckpoint(): Promise<void> {
    const { status, body } = await this.#call('GET', '/v1/audit/checkpoint')
    if (status === 200) this.#note = { note: body.checkpoint, publicKey: body.public_key }
  }

  async #restart(): Promise<void> {
    await this.world.restart()
    this.figures.restarts += 1
  }

  #verifyNow(): Promise<string[]> {
    this.figures.verifications += 1
    return verifyByBoth(this.world.service, this.owner)
  }

  /** Makes every check of the log at the end of the history. */
  async verify(): Promise<string[]> {
    const alarms = [...this.#alarms, ...(await this.#verifyNow())]
    const { service } = this.world
    const sql = service.services.sql as unknown as postgres.Sql
    const auditKey = await openAuditKey(sql, Buffer.from(ROOT_KEY, 'base64'), this.#id)
    const kept = this.#note
    const checkpoint = kept && readNote(kept.note, kept.publicKey)
    const { verdict, faults } = await checkTenant(sql, { tenant_id: this.#id, auditKey, checkpoint })
    this.figures.entries += verdict.verified_entries
    if (!verdict.valid) alarms.push(`the checker: ${JSON.stringify(verdict)}`)
    alarms.push(...faults.map((fault) => `the checker: ${fault}`))

    const query = kept ? `?checkpoint=${encodeURIComponent(kept.note)}` : ''
    const withCheckpoint = (await this.#call('GET', `/v1/audit/verify${query}`)).body
    if (!withCheckpoint.valid) alarms.push(`with a checkpoint, the server: ${JSON.stringify(withCheckpoint)}`)
    const lines = String((await this.#call('GET', '/v1/audit/export')).body)
      .split('\n')
      .slice(0, -1)
    const exported = await verifyExport(lines, kept ? { publicKey: kept.publicKey, checkpoint: kept.note } : {})
    if (!exported.valid || !exported.whole) alarms.push(`the export: ${JSON.stringify(exported)}`)
    const anchored = await performAsSystem(service.services, this.#id, exportAudit({ withAnchor: true }))
    const covered = await verifyExport(splitLines(anchored))
    if (!covered.valid || !covered.whole) alarms.push(`the export with its anchor: ${JSON.stringify(covered)}`)
    if (service.alarms.length > 0) alarms.push(`alarms: ${JSON.stringify(service.alarms)}`)
    return alarms
  }
}

// biome-ignore lint/suspicious/noExplicitAny: a history looks at the fields that it expects, whatever the answer is
type Any = any

/** Verifies by the server, then by the independent program. */
async function verifyByBoth(service: Service, { secret, tenant: { tenant_id } }: Caller): Promise<string[]> {
  const { status, body } = await service.caller(secret).call<Any>('GET', '/v1/audit/verify')
  return [
    ...(status === 200 && body.valid === true ? [] : [`the server: ${status} ${JSON.stringify(body)}`]),
    ...(await verifyBeside(service, tenant_id)),
  ]
}

/** Verifies by the program that shares no code with the server, in one snapshot. */
async function verifyBeside({ services }: Service, tenant_id: string): Promise<string[]> {
  const sql = services.sql as unknown as postgres.Sql
  const finding = await sql.begin('isolation level repeatable read read only', async (snapshot) => {
    const auditKey = await openAuditKey(snapshot, Buffer.from(ROOT_KEY, 'base64'), tenant_id)
    return verifyIndependently(snapshot, { tenant_id, auditKey })
  })
  return finding.valid ? [] : [`the verifier: ${JSON.stringify(finding)}`]
}

export interface LoadFigures {
  verifications: number
  appended: number
  purges: number
  falseAlarms: string[]
}

/**
 * How often one tenant's log is verified under load: a log that grows while it is verified takes longer each time. On
 * the embedded database ten verifications more made it three to four times as long.
 */
export const VERIFIED_A_TENANT = 10

/** Verifies a log again and again while clients append to it, and purges it once for each tenant. */
export async function verifyUnderLoad({
  clients,
  verifications,
}: {
  clients: number
  verifications: number
}): Promise<LoadFigures> {
  const world = await startWorld()
  const figures: LoadFigures = { verifications: 0, appended: 0, purges: 0, falseAlarms: [] }
  try {
    while (figures.verifications < verifications) {
      await verifyOneUnderLoad(world, figures, {
        clients,
        times: Math.min(VERIFIED_A_TENANT, verifications - figures.verifications),
      })
    }
  } finally {
    await world.close()
  }
  return figures
}

async function verifyOneUnderLoad(
  world: World,
  figures: LoadFigures,
  { clients, times }: { clients: number; times: number },
): Promise<void> {
  const { service } = world
  const owner = await service.createTenant({ name: randomBytes(8).toString('hex') })
  const { tenant_id } = owner.tenant
  const load = await startLoad({ target: () => service.url, secret: owner.secret, clients })
  const mayPurgeAt = Math.floor(times / 2)
  try {
    for (let at = 0; at < times; at++) {
      const [faults] = await Promise.all([
        verifyByBoth(service, owner),
        at === mayPurgeAt ? purgeUnderLoad(world, tenant_id, figures) : undefined,
      ])
      figures.verifications += 1
      figures.falseAlarms.push(...faults)
    }
  } finally {
    await load.stop()
  }
  figures.appended += load.acked()
  if (load.failures() > 0) figures.falseAlarms.push(`${load.failures()} calls of the load were answered 5xx`)
  figures.falseAlarms.push(...load.surprises, ...service.alarms.map((alarm) => JSON.stringify(alarm)))
}

/** Makes everything written so far older than the retention at once, and purges it while it is being read. */
async function purgeUnderLoad(world: World, tenant_id: string, figures: LoadFigures): Promise<void> {
  world.now += 40 * DAY_MS
  const { entries } = await purgeTenant(world.service.services, tenant_id, { retentionMonths: 1, maxShare: 1 })
  if (entries > 0) figures.purges += 1
}

function dek(): string {
  return randomBytes(32).toString('base64')
}
