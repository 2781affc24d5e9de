import { createSecretKey } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { JUDGE_CASES } from '../../../../../test/support/audit/judge-cases.js'
import { extendChain, genesisHead } from '../../core/audit/formats/chain.js'
import { HeadWatch } from './head-watch.js'
import * as judge from './judge.js'

describe('a log is judged', () => {
  it.each(JUDGE_CASES)('$name', ({ find, expected }) => expect(find(judge)).toEqual(expected))
})

describe('a copy of a head under a newer audit key', () => {
  const TENANT = '3f2504e0-4f89-41d3-9a0c-0305e82c3301'
  const draft = {
    action: 'audit.key_renew',
    key_id: null,
    key_version: null,
    actor: 'system',
    ip_address: null,
    metadata: null,
  } as const
  const auditKey = createSecretKey(Buffer.alloc(32, 1))
  const now = Date.parse('2026-11-24T00:00:00Z')
  const genesis = genesisHead(auditKey, TENANT, '2026-11-22T00:00:00.000Z')
  const { entries: start, head: witnessed } = extendChain(genesis, [draft], { auditKey, now })
  const former = [{ through: witnessed.last_id, key: auditKey }]
  const renewed = { current: createSecretKey(Buffer.alloc(32, 2)), former }
  const later = extendChain(witnessed, [draft], { auditKey: renewed, now })

  it.each([
    ['the head of before', witnessed, []],
    ['the newer head', later.head, later.entries],
  ])('is not taken for a changed one where %s is followed by the key of before', (_, head, entries) => {
    const watch = new HeadWatch(TENANT, () => undefined)
    watch.commit(witnessed)
    watch.held.rememberAnchored(later.head)
    expect(watch.follow({ head, stretch: [...start, ...entries] }, auditKey)).toBe('broken')
    expect(watch.follow({ head: later.head, stretch: [...start, ...later.entries] }, renewed)).toBe('wholly')
    expect(watch.held.all).toEqual([later.head])
  })
})
