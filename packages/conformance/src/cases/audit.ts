/** The audit log, its filters, verification and export; usage. */
import { readCheckpoint, splitLines, verifyExport } from '@eaas/audit'
import type { wire } from '@eaas/protocol'
import type { Session } from '../session.js'
import { type Cases, check, each, randomBase64, same } from './case.js'

const idsOf = (logs: readonly wire.Entry[]) => each(logs, 'id')

/** Makes a key with four entries: created, wrapped, rotated, wrapped. */
async function makeHistory(session: Session) {
  const { id } = await session.newKey()
  const wrap = () => session.ok('wrap', { id, body: { dek: randomBase64() } })
  const { wrapped_key } = await wrap()
  await session.ok('rotateKey', { id })
  await wrap()
  return { id, wrapped_key }
}

export const AUDIT_CASES: Cases = {
  async 'listAudit: has an entry for each change and use of a key, with the version that was used'(session) {
    const { id, wrapped_key } = await makeHistory(session)
    await session.ok('unwrap', { id, body: { wrapped_key } })
    await session.ok('rewrap', { id, body: { wrapped_key } })
    await session.ok('setRotation', { id, body: { interval_days: 30 } })
    await session.ok('exportKey', { id })
    await session.ok('disableKey', { id })
    await session.ok('enableKey', { id })
    const { logs } = await session.ok('listAudit', { query: { key_id: id, order: 'asc' } })
    const history = ['key.create', 'key.wrap', 'key.rotate', 'key.wrap', 'key.unwrap', 'key.wrap']
    const actions = [...history, 'key.rotation_policy', 'key.export', 'key.disable', 'key.enable']
    const versions = [1, 1, 2, 2, 1, 2, 2, 2, 2, 2]
    same(each(logs, 'action'), actions, 'actions')
    same(each(logs, 'key_version'), versions, 'key versions')
    same(each(each(logs, 'metadata'), 'key_version'), versions, 'metadata.key_version')
    same(new Set(logs.map(({ key_id }) => key_id)), new Set([id]), 'key_id')
    same(logs[5]?.metadata.rewrapped_from, 1, 'rewrapped_from of the rewrap')
  },
  async 'listAudit: numbers entries without gaps, answers the newest first, and pages in either order'(session) {
    const { id } = await makeHistory(session)
    const list = async (query: Record<string, string | number>) =>
      idsOf((await session.ok('listAudit', { query })).logs)
    const mine = await list({ key_id: id, order: 'asc' })
    const first = mine[0] ?? 0
    same(mine, [first, first + 1, first + 2, first + 3], 'the ids of the key’s entries')
    same(await list({ limit: 4 }), [...mine].reverse(), 'the newest entries')
    same(await list({ after_id: first, order: 'asc', limit: 2 }), mine.slice(1, 3), 'those after the first')
    same(await list({ key_id: id, limit: 2, offset: 1 }), [first + 2, first + 1], 'the second page')
    const page = await session.ok('listAudit', { query: { key_id: id, limit: 3 } })
    const { count, total, limit, offset } = page
    same({ count, total, limit, offset }, { count: 3, total: 4, limit: 3, offset: 0 }, 'count, total, limit, offset')
    same((await session.ok('listAudit', { query: { limit: 1_000 } })).limit, 100, 'a limit beyond 100')
  },
  async 'listAudit: filters by action, actor and time, whose ends belong to it'(session) {
    const { id } = await makeHistory(session)
    const list = async (query: Record<string, string>) =>
      (await session.ok('listAudit', { query: { key_id: id, order: 'asc', ...query } })).logs
    const all = await list({})
    const times = all.map(({ created_at }) => created_at)
    same(idsOf(await list({ action: 'key.wrap' })), [all[1]?.id, all[3]?.id], 'by action')
    same((await list({ action: 'key.export' })).length, 0, 'by an action that was not done')
    same((await list({ actor: `${all[0]?.actor}` })).length, 4, 'by actor')
    same((await list({ actor: 'system' })).length, 0, 'by another actor')
    for (const from of times) {
      const expected = all.filter(({ created_at }) => created_at >= from)
      same(idsOf(await list({ date_from: from })), idsOf(expected), 'by date_from')
      const until = all.filter(({ created_at }) => created_at <= from)
      same(idsOf(await list({ date_to: from })), idsOf(until), 'by date_to')
    }
    const east = new Date(Date.parse(`${times[0]}`) + 7_200_000).toISOString().replace('Z', '+02:00')
    same((await list({ date_from: east })).length, 4, 'by a time with an offset')
  },
  async 'listAudit, wrap, batch: record the end user that EaaS-On-Behalf-Of names, and the use of a wrapped key, found with `hash`'(
    session,
  ) {
    const { id } = await session.newKey()
    const dek = randomBase64()
    const headers = { 'eaas-on-behalf-of': 'user:7' }
    await session.ok('wrap', { id, headers, body: { dek, purpose: 'index', context: { row: '7' } } })
    await session.ok('batch', { headers, body: { operations: [{ op: 'wrap', key_id: id, dek }] } })
    const { logs } = await session.ok('listAudit', { query: { key_id: id, on_behalf_of: 'user:7', order: 'asc' } })
    same(each(logs, 'action'), ['key.wrap', 'key.wrap'], 'the entries of the end user')
    const { purpose, 'context.row': row } = logs[0]?.metadata ?? {}
    same([purpose, row], ['index', '7'], 'purpose and context')
    const { secret: guessing } = await session.newApiKey({ permissions: ['audit:read', 'hash'] })
    const guess = { query: { key_id: id, context: '{"row":"7"}' } }
    same((await session.ok('listAudit', { ...guess, apiKey: guessing })).total, 1, 'the entries of the row')
    const { secret: limited } = await session.newApiKey({ permissions: ['audit:read', 'hash'], keys: [id] })
    same((await session.ok('listAudit', { ...guess, apiKey: limited })).total, 1, 'those of one of its keys')
    const { id: other } = await session.newKey()
    const elsewhere = { query: { ...guess.query, key_id: other }, apiKey: limited }
    await session.refused('listAudit', elsewhere, '404 E_NOT_FOUND')
    const { secret: reading } = await session.newApiKey({ permissions: ['audit:read'] })
    await session.refused('listAudit', { ...guess, apiKey: reading }, '403 E_MISSING_PERMISSION')
    for (const wrong of ['', 'a b', 'a,b', 'é', 'x'.repeat(256)]) {
      const said = { headers: { 'eaas-on-behalf-of': wrong } }
      const { detail } = (await session.refused('listKeys', said, '400 E_VALIDATION')).body
      check(detail.includes('eaas-on-behalf-of'), `the detail does not name the header: ${detail}`)
    }
    const { secret: apiKey } = await session.newApiKey({ permissions: ['wrap'] })
    await session.refused('wrap', { id, apiKey, headers, body: { dek } }, '403 E_MISSING_PERMISSION')
  },
  async 'verifyAudit: finds the log valid to its head, which moves with each entry'(session) {
    const before = await session.ok('verifyAudit')
    await session.newKey()
    const after = await session.ok('verifyAudit')
    same([before.valid, after.valid], [true, true], 'valid')
    same(after.head?.id, (before.head?.id ?? 0) + 1, 'the id of the head')
    check(after.head?.hash !== before.head?.hash, 'the hash of the head has not changed')
  },
  async 'exportAudit, readAuditCheckpoint: verify offline against each other: the chain, its signature and the checkpoint (export.md 6)'(
    session,
  ) {
    const { id } = await makeHistory(session)
    const { checkpoint, public_key: publicKey } = await session.ok('readAuditCheckpoint')
    const { tenant_id } = await session.ok('getTenant')
    same(readCheckpoint(checkpoint, publicKey).tenant_id, tenant_id, 'the tenant of the checkpoint')
    await session.refused('exportAudit', { query: { limit: 1 } }, '400 E_VALIDATION')
    const { text } = await session.call('exportAudit')
    const actions: string[] = []
    let created = 0
    const verdict = await verifyExport(splitLines([new TextEncoder().encode(text)]), {
      publicKey,
      checkpoint,
      onEntry: (entry) => {
        if (entry.key_id === id) actions.push(entry.action)
        if (entry.key_id === id && entry.action === 'key.create') created = entry.id
      },
    })
    same([verdict.valid, verdict.reason], [true, undefined], 'valid and reason')
    same(verdict.checkpoint_compared, true, 'whether the export reaches back to the checkpoint')
    same(actions, ['key.create', 'key.wrap', 'key.rotate', 'key.wrap'], 'the entries of the key')
    const rest = await session.call('exportAudit', { query: { after_id: created } })
    const { valid, after_id } = await verifyExport(splitLines([new TextEncoder().encode(rest.text)]), { publicKey })
    same([valid, after_id], [true, created], 'valid and after_id of an export of what follows')
  },
  async 'getUsage: counts the operations of a month, and hashes, which have no entry'(session) {
    const { id } = await session.newKey()
    const hashes = ({ unrecorded }: wire.Usage) =>
      unrecorded.filter(({ kind }) => kind === 'hash').reduce((sum, { count }) => sum + count, 0)
    const before = await session.ok('getUsage')
    for (let round = 0; round < 3; round++) {
      await session.ok('wrap', { id, body: { dek: randomBase64() } })
      await session.ok('hash', { body: { key_id: id, value: 'x' } })
    }
    const after = await session.ok('getUsage', { query: { month: before.month } })
    same((after.operations['key.wrap'] ?? 0) - (before.operations['key.wrap'] ?? 0), 3, 'wraps')
    same(hashes(after) - hashes(before), 3, 'hashes')
    same((await session.ok('getUsage', { query: { month: '2001-01' } })).operations, {}, 'of a month before')
    const { total } = await session.ok('listAudit', { query: { key_id: id } })
    same(total, 4, 'the entries of the key')
  },
}
