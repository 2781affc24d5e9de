// A key's states and events as in the contract's table, a way to make each event happen, and random sequences of events that are
// checked against the table.
import { randomBytes } from 'node:crypto'
import type { wire } from '@eaas/protocol'
import fc from 'fast-check'
import { expect } from 'vitest'
import { doDueWork } from '../../packages/server/src/core/jobs/due-work.js'
import { ELEMENT } from '../support/audit/audit-scene.js'
import { type Caller, type Service, startService } from '../support/service/service.js'

export const DAY_MS = 86_400_000

export const EVENTS = [
  'rotate',
  'disable',
  'enable',
  'destroy',
  'cancel',
  'window over',
  'wrap',
  'hash',
  'blind hash',
  'encrypt',
  'unwrap',
  'decrypt',
  'export',
  'rewrap',
  'index secret',
  'policy',
] as const
export type Event = (typeof EVENTS)[number]
export type Status = wire.KeyStatus

/** The result of an event in a state: the HTTP status, the state after it, and whether the audit log has an entry. */
export type Cell = [http: number | null, after: Status, entry: boolean]
const uses = (active: number, disabled: number): Record<Status, Cell> => ({
  active: [active, 'active', active === 200],
  disabled: [disabled, 'disabled', disabled === 200],
  pending_destruction: [409, 'pending_destruction', false],
  destroyed: [409, 'destroyed', false],
})
export const TABLE: Record<Event, Record<Status, Cell>> = {
  rotate: uses(200, 409),
  disable: {
    active: [204, 'disabled', true],
    disabled: [204, 'disabled', false],
    pending_destruction: [204, 'pending_destruction', false],
    destroyed: [409, 'destroyed', false],
  },
  enable: {
    active: [200, 'active', false],
    disabled: [200, 'active', true],
    pending_destruction: [409, 'pending_destruction', false],
    destroyed: [409, 'destroyed', false],
  },
  destroy: {
    active: [409, 'active', false],
    disabled: [200, 'pending_destruction', true],
    pending_destruction: [200, 'pending_destruction', false],
    destroyed: [200, 'destroyed', false],
  },
  cancel: {
    active: [409, 'active', false],
    disabled: [409, 'disabled', false],
    pending_destruction: [200, 'disabled', true],
    destroyed: [409, 'destroyed', false],
  },
  'window over': {
    active: [null, 'active', false],
    disabled: [null, 'disabled', false],
    pending_destruction: [null, 'destroyed', true],
    destroyed: [null, 'destroyed', false],
  },
  wrap: uses(200, 409),
  hash: { ...uses(200, 409), active: [200, 'active', false] },
  'blind hash': { ...uses(200, 409), active: [200, 'active', false] },
  encrypt: uses(200, 409),
  unwrap: uses(200, 200),
  decrypt: uses(200, 200),
  export: uses(200, 200),
  rewrap: uses(200, 409),
  'index secret': uses(200, 200),
  policy: uses(200, 200),
}

/** The table, on a service of its own whose clock the test moves. */
export interface KeyModel {
  service: Service
  owner: Caller
  /** milliseconds since 1970 */
  clock: { now: number }
  makeKey(): Promise<Subject>
  /** Makes an event happen to a key; returns the HTTP status, or null if it needed no call. */
  apply(event: Event, key: Subject): Promise<number | null>
  status(key: Subject): Promise<Status>
  entries(key: Subject): Promise<number>
  /** Fails with the shortest sequence of events after which the service and the table disagree. */
  agreeAfterRandomEvents(options: { sequences: number; eventsASequence: number }): Promise<void>
}

export interface Subject {
  id: string
  name: string
  wrapped_key: string
  bundle: Record<string, unknown>
}
const dek = () => randomBytes(32).toString('base64')

/** The events that lead to a state. */
export const TO: Record<Status, Event[]> = {
  active: [],
  disabled: ['disable'],
  pending_destruction: ['disable', 'destroy'],
  destroyed: ['disable', 'destroy', 'window over'],
}

/** Starts the service that is checked against the model. */
export async function startKeyModel(): Promise<KeyModel> {
  const clock = { now: Date.now() }
  const service = await startService({ now: () => clock.now })
  const owner = await service.createTenant({ envelope_only: false })

  async function makeKey(): Promise<Subject> {
    const name = `key ${randomBytes(8).toString('hex')}`
    const { id } = (await owner.call('POST', '/v1/keys', { name })).body
    const { wrapped_key } = (await owner.call('POST', `/v1/keys/${id}/wrap`, { dek: dek() })).body
    const bundle = (await owner.call('POST', '/v1/encrypt', { key_id: id, plaintext: 'x' })).body
    return { id, name, wrapped_key, bundle }
  }

  async function apply(event: Event, { id, name, wrapped_key, bundle }: Subject): Promise<number | null> {
    const path = `/v1/keys/${id}`
    if (event === 'window over') {
      clock.now += 8 * DAY_MS
      await doDueWork(service.services)
      return null
    }
    const calls: Record<Exclude<Event, 'window over'>, [string, string, unknown?]> = {
      rotate: ['POST', `${path}/rotate`],
      disable: ['DELETE', path],
      enable: ['POST', `${path}/enable`],
      destroy: ['POST', `${path}/destroy`, { confirm: name }],
      cancel: ['POST', `${path}/destroy/cancel`],
      wrap: ['POST', `${path}/wrap`, { dek: dek() }],
      hash: ['POST', '/v1/hash', { key_id: id, value: 'x' }],
      'blind hash': ['POST', '/v1/hash/blind', { key_id: id, elements: [ELEMENT] }],
      encrypt: ['POST', '/v1/encrypt', { key_id: id, plaintext: 'x' }],
      unwrap: ['POST', `${path}/unwrap`, { wrapped_key }],
      decrypt: ['POST', '/v1/decrypt', bundle],
      export: ['POST', `${path}/export`],
      rewrap: ['POST', `${path}/rewrap`, { wrapped_key }],
      'index secret': ['POST', `${path}/index-secret`, { name: 'customers' }],
      policy: ['PATCH', `${path}/rotation`, { interval_days: 3650 }],
    }
    const { status, body } = await owner.call(...calls[event])
    if (status === 409) {
      const shown = (await owner.call('GET', path)).body.status
      expect(body.code).toBe(shown === 'destroyed' ? 'E_KEY_DESTROYED' : 'E_STATE')
    }
    return status
  }

  const status = async ({ id }: Subject) => (await owner.call('GET', `/v1/keys/${id}`)).body.status
  const entries = async ({ id }: Subject) => (await owner.call('GET', `/v1/audit?key_id=${id}&limit=1`)).body.total

  async function agreeAfterRandomEvents({
    sequences,
    eventsASequence,
  }: {
    sequences: number
    eventsASequence: number
  }) {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.constantFrom(...EVENTS), { maxLength: eventsASequence }), async (events) => {
        const key = await makeKey()
        let model: Status = 'active'
        let version = 1
        let onRecord = await entries(key)
        for (const event of events) {
          const [http, after, isOnRecord]: Cell = TABLE[event][model]
          expect(await apply(event, key)).toBe(http)
          if (event === 'rotate' && model === 'active') version += 1
          if (isOnRecord) onRecord += 1
          model = after
        }
        const shown = (await owner.call('GET', `/v1/keys/${key.id}`)).body
        expect([shown.status, shown.current_version, await entries(key)]).toEqual([model, version, onRecord])
        const current = shown.versions.map((row: { status: string }) => row.status)
        const expected = Array.from({ length: version }, (_, at) => (at + 1 === version ? 'active' : 'retired'))
        expect(current).toEqual(model === 'destroyed' ? expected.map(() => 'destroyed') : expected)
      }),
      { numRuns: sequences },
    )
  }

  return { service, owner, clock, makeKey, apply, status, entries, agreeAfterRandomEvents }
}
