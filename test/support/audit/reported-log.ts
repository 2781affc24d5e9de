// A history of half a year with everything that a report shows: end users, a spike, an export, rights that change, an erasure, refusals.
import type { Draft } from './written-export.js'

export const OWNER = '6f1b6c1e-3a5e-4f0e-8f57-2f6a0f6f3f01'
export const SHOP = '6f1b6c1e-3a5e-4f0e-8f57-2f6a0f6f3f02'
export const CLERK = '6f1b6c1e-3a5e-4f0e-8f57-2f6a0f6f3f03'
export const CUSTOMERS = 'a1b2c3d4-0000-4000-8000-000000000001'
export const ORDERS = 'a1b2c3d4-0000-4000-8000-000000000002'
export const ERASED = 'a1b2c3d4-0000-4000-8000-000000000003'
/** The name of an end user that an application chose to harm readers of the report. */
export const HOSTILE = `<script>alert('x')</script>"'&\u202eexe.txt\u0007`
/** The name of an API key, equally harmful. */
export const HOSTILE_NAME = `<img src=x onerror=alert(1)>\u200b `
export const FORMULA = "=cmd|' /C calc'!A0"
export const SIGNED_AT = '2026-07-02T00:00:00.000Z'
const ALL =
  'api_keys:manage api_keys:read audit:on_behalf_of audit:read decrypt encrypt hash keys:create keys:destroy keys:disable keys:export keys:read keys:rotate'

/** The history from 5 January to 1 July 2026; `busy` multiplies the days' openings. */
export function* reportedLog(busy = 1): Generator<Draft> {
  const key: Record<string, number> = { [CUSTOMERS]: 0, [ORDERS]: 0, [ERASED]: 0 }
  let id = 0
  const at = (day: number, minute = 0) =>
    new Date(Date.parse('2026-01-05T08:00:00.000Z') + day * 86_400_000 + minute * 60_000).toISOString()
  const grant = (api_key_id: string, permissions: string, more: object = {}) => ({
    api_key_id,
    permissions,
    expires_at: null,
    allowed_ips: null,
    ...more,
  })
  const numbered = (draft: Draft): Draft => {
    id += 1
    return draft
  }
  const change = (key_id: string, draft: Draft): Draft => {
    const replaces = key[key_id] === 0 ? {} : { replaces: key[key_id] }
    key[key_id] = id + 1
    return numbered({ key_id, key_version: 1, actor: OWNER, ...draft, metadata: { ...draft.metadata, ...replaces } })
  }
  yield numbered({
    action: 'api_key.create',
    created_at: at(0),
    metadata: { ...grant(OWNER, ALL), name: 'owner', envelope_only: true },
  })
  for (const key_id of [CUSTOMERS, ORDERS, ERASED])
    yield change(key_id, {
      action: 'key.create',
      created_at: at(0, 1),
      // An older server did not state names.
      metadata:
        key_id === ORDERS
          ? { folder: 'shop/', name: 'shop/orders' }
          : key_id === ERASED
            ? { folder: '', name: 'erased' }
            : { folder: '' },
    })
  yield numbered({
    action: 'api_key.create',
    created_at: at(0, 2),
    actor: OWNER,
    metadata: grant(SHOP, 'audit:on_behalf_of decrypt encrypt', { name: HOSTILE_NAME }),
  })
  const clerkEntry = id + 1
  yield numbered({
    action: 'api_key.create',
    created_at: at(0, 3),
    actor: OWNER,
    metadata: grant(CLERK, 'audit:on_behalf_of unwrap', { name: 'clerk', keys: `["${CUSTOMERS}"]` }),
  })
  yield change(ORDERS, {
    action: 'key.rotation_policy',
    created_at: at(1),
    metadata: { interval_days: 30, interval_days_before: null, status: 'active' },
  })
  for (let day = 2; day < 178; day++) {
    const isWeekend = [5, 6].includes(day % 7)
    const openings = busy * (day === 120 ? 60 : isWeekend ? 1 : 4 + (day % 3))
    for (let at_ = 0; at_ < openings; at_++) {
      const minute = Math.floor((600 * at_) / openings)
      const user = at_ % 5 === 4 ? FORMULA : at_ % 7 === 6 ? HOSTILE : 'ada@example.com'
      yield numbered({
        action: 'key.unwrap',
        created_at: at(day, minute),
        key_id: day % 4 === 0 && at_ % 2 === 0 ? ORDERS : CUSTOMERS,
        key_version: 1,
        actor: SHOP,
        ip_address: '192.0.2.7',
        metadata: { on_behalf_of: user, 'context.model': 'customers', 'context.row': String(at_ % 9), purpose: 'data' },
      })
    }
    if (!isWeekend) {
      yield numbered({
        action: 'key.wrap',
        created_at: at(day, 601),
        key_id: CUSTOMERS,
        key_version: 1,
        actor: SHOP,
        ip_address: '192.0.2.7',
        metadata: { on_behalf_of: 'ada@example.com' },
      })
    }
    if (day === 40)
      yield numbered({
        action: 'envelope_only.refused',
        created_at: at(day, 610),
        key_id: CUSTOMERS,
        key_version: 1,
        actor: SHOP,
        ip_address: '192.0.2.9',
        metadata: { operation: 'decrypt' },
      })
    if (day === 50)
      yield numbered({
        action: 'budget.refused',
        created_at: at(day, 610),
        actor: SHOP,
        ip_address: '192.0.2.9',
        metadata: { operation: 'unwrap', window: 'minute', limit: 600 },
      })
    if (day === 60)
      yield numbered({
        action: 'api_key.update',
        created_at: at(day, 620),
        actor: OWNER,
        metadata: {
          ...grant(CLERK, 'audit:on_behalf_of hash unwrap', { name: 'till', keys: `["${CUSTOMERS}"]` }),
          name_before: 'clerk',
          permissions_before: 'audit:on_behalf_of unwrap',
          changed: 'name permissions',
          replaces: clerkEntry,
        },
      })
    if (day === 90)
      yield numbered({
        action: 'key.export',
        created_at: at(day, 630),
        key_id: CUSTOMERS,
        key_version: 1,
        actor: OWNER,
        ip_address: '198.51.100.4',
      })
    if (day === 100) {
      yield change(ERASED, { action: 'key.disable', created_at: at(day, 640) })
      yield change(ERASED, { action: 'key.destroy', created_at: at(day, 641), metadata: { step: 'scheduled' } })
    }
    if (day === 108)
      yield change(ERASED, {
        action: 'key.destroy',
        created_at: at(day, 642),
        actor: 'system',
        metadata: { step: 'completed', versions: 1 },
      })
  }
}

/** The entry with which a tenant left, after the entry `replaces` recorded it last. */
export const departure = (replaces: number): Draft => ({
  action: 'tenant.update',
  created_at: '2026-06-30T00:00:00.000Z',
  metadata: { status: 'moved', replaces, from: 'key-a', to: 'key-b', moved_to: 'https://b.example.org' },
})
export const DEPARTURE =
  'of 2026-06-30T00:00:00.000Z, from the installation with the key key-a to that with key-b, at https://b.example.org, where the log goes on'

/** The last entry of `purgedLog` that the purge deleted. */
export const PURGED_THROUGH = 6

/**
 * A history whose first six entries were purged: the creation of each key and API key except SHOP, and an export. In
 * February CLERK opens; the purge of 1 March restates CUSTOMERS, OWNER and CLERK; SHOP is made on 2 March.
 */
export function purgedLog(): Draft[] {
  const granted = { expires_at: null, allowed_ips: null }
  const owner = { ...granted, api_key_id: OWNER, permissions: ALL, name: 'owner' }
  const clerk = { ...granted, api_key_id: CLERK, permissions: 'unwrap', name: 'clerk' }
  const restated = { created_at: '2026-03-01T00:00:00.000Z', actor: 'system' }
  const aboutKey = { key_id: CUSTOMERS, key_version: 2 }
  const settings = { status: 'active', envelope_only: true, monthly_encrypt_quota: null, plaintext_encoding: 'utf8' }
  return [
    { action: 'api_key.create', created_at: '2026-01-01T00:00:00.000Z', metadata: { ...owner, envelope_only: true } },
    {
      ...{
        action: 'key.create',
        created_at: '2026-01-01T00:00:01.000Z',
        key_id: CUSTOMERS,
        key_version: 1,
        actor: OWNER,
      },
      metadata: { name: 'customers', folder: '' },
    },
    {
      ...{ action: 'key.rotation_policy', created_at: '2026-01-02T00:00:00.000Z', key_id: CUSTOMERS, key_version: 1 },
      ...{ actor: OWNER, metadata: { interval_days: 30, interval_days_before: null, status: 'active', replaces: 2 } },
    },
    {
      ...{ action: 'key.rotate', created_at: '2026-01-03T00:00:00.000Z', ...aboutKey, actor: OWNER },
      metadata: { replaces: 3 },
    },
    { action: 'key.export', created_at: '2026-01-04T00:00:00.000Z', ...aboutKey, actor: OWNER },
    { action: 'api_key.create', created_at: '2026-01-05T00:00:00.000Z', actor: OWNER, metadata: clerk },
    { action: 'key.unwrap', created_at: '2026-02-10T00:00:00.000Z', ...aboutKey, actor: CLERK },
    { action: 'api_key.restate', ...restated, metadata: { ...owner, revoked_at: null, replaces: 1 } },
    { action: 'api_key.restate', ...restated, metadata: { ...clerk, revoked_at: null, replaces: 6 } },
    {
      ...{ action: 'key.restate', ...restated, ...aboutKey },
      metadata: { name: 'customers', folder: '', status: 'active', interval_days: 30, destroy_at: null, replaces: 4 },
    },
    { action: 'tenant.restate', ...restated, metadata: { ...settings, replaces: 1 } },
    {
      ...{ action: 'audit.purge', created_at: '2026-03-01T00:00:01.000Z' },
      metadata: { purged_through: PURGED_THROUGH, entries: PURGED_THROUGH, cutoff: '2026-02-01T00:00:00.000Z' },
    },
    {
      ...{ action: 'api_key.create', created_at: '2026-03-02T00:00:00.000Z', actor: OWNER },
      metadata: { ...granted, api_key_id: SHOP, permissions: 'decrypt encrypt', name: 'shop' },
    },
    { action: 'key.unwrap', created_at: '2026-03-03T00:00:00.000Z', ...aboutKey, actor: SHOP },
  ]
}
