// The table of `judge.ts`: each attack on a log that a server saw, and each honest change beside it, with the verdict.
import { createSecretKey } from 'node:crypto'
import { type ChainedEntry, entryHash, genesisHash } from '../../../packages/audit/src/formats.js'
import {
  type EntryDraft,
  extendChain,
  genesisHead,
  type Head,
  type KeptHead,
  NO_MARK_MAC,
  type PurgeMark,
  type Witness,
} from '../../../packages/server/src/core/audit/formats/chain.js'
import type * as judgeModule from '../../../packages/server/src/guard/watch/judge.js'

type Judge = typeof judgeModule
type Evidence = judgeModule.Evidence
type AcceptedRollback = judgeModule.AcceptedRollback

/** A verdict in words, so that a case reads as a line. */
export interface JudgeCase {
  name: string
  find: (judge: Judge) => unknown
  expected: unknown
}

const TENANT = '3f2504e0-4f89-41d3-9a0c-0305e82c3301'
const auditKey = createSecretKey(Buffer.alloc(32, 1))
const [DAY_1, DAY_2, DAY_3] = ['2026-11-01T00:00:00.000Z', '2026-11-02T00:00:00.000Z', '2026-11-03T00:00:00.000Z']

interface Log {
  entries: ChainedEntry[]
  heads: Head[]
}

/** A log of so many entries, with the head of each; the policy version rises with each, as with changes of rights. */
function grow(from: Head, drafts: readonly Partial<EntryDraft>[]): Log {
  const log: Log = { entries: [], heads: [] }
  let head = from
  for (const draft of drafts) {
    const whole = {
      action: 'key.wrap',
      key_id: null,
      key_version: null,
      actor: 'a',
      ip_address: null,
      metadata: null,
      ...draft,
    } as const
    const next = extendChain(head, [whole], {
      auditKey,
      now: Date.parse(DAY_2),
      policy_version: head.policy_version + 1,
    })
    log.entries.push(...next.entries)
    log.heads.push(next.head)
    head = next.head
  }
  return log
}

const genesis = genesisHead(auditKey, TENANT, DAY_1)
const log = grow(
  genesis,
  Array.from({ length: 6 }, () => ({})),
)
const headAt = (id: number, { heads }: Log = log): Head => (id === 0 ? genesis : (heads[id - 1] as Head))
/** Another history after entry 2, genuine to the last byte. */
const fork = grow(
  headAt(2),
  Array.from({ length: 4 }, () => ({ actor: 'a fork' })),
)
const forkHeadAt = (id: number) => headAt(id - 2, fork)
const between = (from: number, to: number, entries: readonly ChainedEntry[] = log.entries) =>
  entries.filter(({ id }) => id >= from && id <= to)

/** What the database administrator can compute: hashes that follow from an entry that is shown, and no MAC. */
function dress(hash: Uint8Array, entries: readonly ChainedEntry[]): ChainedEntry[] {
  return entries.map((entry) => {
    hash = entryHash(hash, entry)
    return { ...entry, hash }
  })
}

const mark = (purged_through: number, cutoff = DAY_3): PurgeMark => ({
  tenant_id: TENANT,
  purged_through,
  hash: headAt(purged_through).hash,
  entries: purged_through,
  cutoff,
  created_at: DAY_3,
  previous_mac: NO_MARK_MAC,
  mac: NO_MARK_MAC,
})

const accepted = (facts: Partial<AcceptedRollback> = {}): AcceptedRollback => ({
  witnessed_id: 6,
  witnessed_hash: Buffer.from(headAt(6).hash).toString('hex'),
  agrees_through: 0,
  policy_version: 2 ** 32,
  reason: 'a drill',
  ...facts,
})

function describeVerdict(verdict: judgeModule.Verdict): string {
  switch (verdict.kind) {
    case 'continues':
      return `continues to ${verdict.reached.last_id}, past ${verdict.passed.map(({ last_id }) => last_id).join(' ')}`
    case 'explained':
      return 'explained'
    case 'lost':
      return `lost ${verdict.loss.witness.last_id}: ${verdict.loss.fault}`
    case 'open':
      return `needs ${verdict.needs}`
  }
}

/** A log as it is: seen through entry 3, and read through its last entry; nothing was purged or accepted. */
function judged(name: string, evidence: Partial<Evidence>, expected: string): JudgeCase {
  const { from = headAt(3), head = headAt(6) } = evidence
  const stretch = between(from.last_id, head.last_id)
  const shown = { tenant_id: TENANT, auditKey, head, from, points: [from], isEntryRead: true, stretch }
  const all: Evidence = { ...shown, mark: 'none', acceptances: [], ...evidence }
  for (const each of ['stretch', 'mark', 'acceptances'] as const)
    if (each in evidence && evidence[each] === undefined) delete all[each]
  return { name, find: ({ judge }) => describeVerdict(judge(all)), expected }
}

const MISSING = (id: number) => `entry ${id} of the audit chain is missing, and no purge deleted it`
const FORKED = (id: number) => `entry ${id} of the audit chain does not follow from those that were written`
const DIFFERS = (id: number) => `entry ${id} of the audit chain differs from the one that was written`
const BACK = (from: number, to: number) =>
  `the audit chain went back from entry ${from} to ${to}: the database was restored or tampered with`
const unread = { stretch: undefined as never }
const { mac: _, ...computed } = headAt(3)

const long = grow(
  genesis,
  Array.from({ length: 1_002 }, () => ({})),
)
const longest = (id: number) => headAt(id, long)
const longStretch = { stretch: long.entries }

const HONEST = [
  judged(
    'the head that the process knows',
    { head: headAt(3), isEntryRead: false, ...unread },
    'continues to 3, past 3',
  ),
  judged('the head that the process knows, with its entry', { head: headAt(3) }, 'continues to 3, past 3'),
  judged('a log without entries', { from: genesis, head: genesis, ...unread }, 'continues to 0, past 0'),
  judged('a log that grew', {}, 'continues to 6, past 3'),
  judged('a log that grew from its beginning', { from: genesis }, 'continues to 6, past 0'),
  judged('a log that grew by more than a stretch', { stretch: between(3, 5) }, 'continues to 5, past 3'),
  judged(
    'points on the way, one of them of rights that are newer than the head',
    { from: { ...headAt(3), policy_version: 9 }, isFollowed: true },
    'continues to 6, past 3',
  ),
  judged(
    'a log that grew by 1,001 entries',
    { from: longest(1), head: longest(1_002), ...longStretch },
    'continues to 1002, past 1',
  ),
  judged('points on the way', { points: [headAt(3), headAt(5)] }, 'continues to 6, past 3 5'),
  judged(
    'a point beyond the stretch',
    { points: [headAt(3), headAt(6)], stretch: between(3, 5) },
    'continues to 5, past 3',
  ),
  judged('a purge that took the entry', { stretch: between(5, 6), mark: mark(4) }, 'explained'),
  judged('a purge that took the entry alone', { stretch: between(4, 6), mark: mark(3) }, 'explained'),
  judged('an accepted rollback', { from: headAt(6), head: headAt(3), acceptances: [accepted()] }, 'explained'),
  judged(
    'an accepted rollback, though an entry is missing',
    { stretch: between(4, 6), acceptances: [accepted()] },
    'explained',
  ),
]

const READ = [
  judged('nothing is known without the entries', unread, 'needs stretch'),
  judged(
    'an entry is missing, before a mark is read',
    { stretch: between(4, 6), mark: undefined as never },
    'needs mark',
  ),
  judged(
    'an entry is missing that a mark does not cover, before acceptances are read',
    { stretch: between(4, 6), mark: mark(2), acceptances: undefined as never },
    'needs acceptances',
  ),
  judged(
    'the head is behind, whatever the entries and marks are',
    { from: headAt(6), head: headAt(3), ...unread, mark: undefined as never, acceptances: undefined as never },
    'needs acceptances',
  ),
]

const ATTACKS = [
  judged('an older head is put back', { from: headAt(6), head: headAt(3) }, `lost 6: ${BACK(6, 3)}`),
  judged(
    'an older head is put back, of no lower policy version',
    { from: { ...headAt(6), policy_version: 4 }, head: headAt(3) },
    `lost 6: ${BACK(6, 3)}`,
  ),
  judged(
    'a head of before a change of rights is put back',
    { from: { ...headAt(3), policy_version: 9 }, head: headAt(6) },
    'lost 3: the audit chain went back to before a change of rights (policy version 9, now 7): the database was restored or tampered with',
  ),
  judged(
    'a head of another history is put in place',
    { head: forkHeadAt(3), isEntryRead: false, ...unread },
    `lost 3: ${DIFFERS(3)}`,
  ),
  judged(
    'a log begins anew under another genesis',
    { from: genesis, head: { ...genesis, hash: genesisHash(TENANT.replace('3f', '4f')) }, ...unread },
    `lost 0: ${DIFFERS(0)}`,
  ),
  judged('the last entry is deleted, and its head stays', { head: headAt(3), stretch: [] }, `lost 3: ${MISSING(3)}`),
  judged('the entry that was seen is deleted', { stretch: between(4, 6) }, `lost 3: ${MISSING(3)}`),
  judged('an entry after it is deleted', { stretch: [...between(3, 4), ...between(6, 6)] }, `lost 3: ${MISSING(5)}`),
  judged(
    'the last entry is deleted, after an entry up to which the log was followed',
    { from: { ...headAt(5), policy_version: 4 }, stretch: between(5, 5) },
    `lost 5: ${MISSING(6)}`,
  ),
  judged('all entries after it are deleted', { stretch: between(3, 3) }, `lost 3: ${MISSING(4)}`),
  judged(
    'the entry that was seen is repeated',
    { stretch: [...between(3, 3), ...between(3, 6)] },
    'lost 3: there are several entries 3 of the audit chain',
  ),
  judged(
    'an entry is repeated',
    { stretch: [...between(3, 5), ...between(5, 6)] },
    'lost 3: there are several entries 5 of the audit chain',
  ),
  judged(
    'another entry has its id',
    { stretch: between(3, 6, fork.entries), head: forkHeadAt(6) },
    `lost 3: ${DIFFERS(3)}`,
  ),
  judged(
    'an entry is edited',
    { stretch: between(3, 6).map((entry) => (entry.id === 5 ? { ...entry, actor: 'b' } : entry)) },
    `lost 3: ${FORKED(5)}`,
  ),
  judged(
    'a fork goes on behind the entry that was seen, which is shown',
    { stretch: [...between(3, 3), ...between(4, 6, fork.entries)], head: forkHeadAt(6) },
    `lost 3: ${FORKED(4)}`,
  ),
  judged(
    'a fork goes on behind it, with hashes computed from it',
    { stretch: [...between(3, 3), ...dress(headAt(3).hash, between(4, 6, fork.entries))], head: forkHeadAt(6) },
    `lost 3: ${FORKED(6)}`,
  ),
  judged(
    'a fork of more than a stretch goes on behind it, with hashes computed from it',
    { stretch: [...between(3, 3), ...dress(headAt(3).hash, between(4, 5, fork.entries))], head: forkHeadAt(6) },
    `lost 3: ${FORKED(5)}`,
  ),
  judged('the entries lead to another head', { head: forkHeadAt(6) }, `lost 3: ${FORKED(6)}`),
  judged(
    'another history is on the way of a second point',
    { points: [headAt(3), forkHeadAt(5)] },
    'continues to 6, past 3', // the second point stays, and is judged by itself
  ),
  judged('a mark covers less than what is missing', { stretch: between(4, 6), mark: mark(2) }, `lost 3: ${MISSING(3)}`),
  judged(
    'a mark covers what was seen, and not what is missing',
    { stretch: [...between(3, 4), ...between(6, 6)], mark: mark(4) },
    `lost 3: ${MISSING(5)}`,
  ),
  judged(
    'a mark is of a purge of another log: what was seen is as late as its cutoff',
    { stretch: between(4, 6), mark: mark(3, DAY_2) },
    `lost 3: ${MISSING(3)}`,
  ),
  judged(
    'a mark is of a purge of another log: an entry up to which this was followed is later',
    { from: computed, stretch: between(4, 6), mark: mark(3, DAY_2) },
    `lost 3: ${MISSING(3)}`,
  ),
  judged(
    'a mark is of a purge of another log: a head before an entry without a time is later',
    {
      from: { last_id: 3, hash: computed.hash, policy_version: 4, sealed: headAt(2) },
      stretch: between(4, 6),
      mark: mark(3, DAY_2),
    },
    `lost 3: ${MISSING(3)}`,
  ),
  judged(
    'a time that nothing proves says nothing about a purge',
    { from: { ...headAt(3), mac: NO_MARK_MAC }, stretch: between(4, 6), mark: mark(3, DAY_2) },
    'explained',
  ),
  judged(
    'a mark explains no entry that differs',
    { stretch: between(3, 6, fork.entries), mark: mark(3) },
    `lost 3: ${DIFFERS(3)}`,
  ),
  judged(
    'a mark explains no head that went back',
    { from: headAt(6), head: headAt(3), mark: mark(6) },
    `lost 6: ${BACK(6, 3)}`,
  ),
  judged(
    'what was seen after a rollback was accepted is lost',
    { from: headAt(6), head: headAt(3), acceptances: [accepted({ policy_version: 7 })] },
    `lost 6: ${BACK(6, 3)}`,
  ),
  judged(
    'more is lost than was accepted',
    { from: headAt(6), head: headAt(3), acceptances: [accepted({ witnessed_id: 5 })] },
    `lost 6: ${BACK(6, 3)}`,
  ),
  judged(
    'what an acceptance says is kept is lost',
    { from: headAt(6), head: headAt(3), acceptances: [accepted({ agrees_through: 6 })] },
    `lost 6: ${BACK(6, 3)}`,
  ),
  judged(
    'what the newest acceptance says is kept is lost, though an earlier one accepted that',
    { from: headAt(6), head: headAt(3), acceptances: [accepted({ agrees_through: 6 }), accepted()] },
    `lost 6: ${BACK(6, 3)}`,
  ),
]

const describeHead = (head: KeptHead | undefined) =>
  head && [head.last_id, head.policy_version, head.sealed?.last_id ?? null].join(' ')

/** The point that the process takes over after a stretch. */
function followed(
  name: string,
  { from = headAt(3), stretch = between(3, 5) }: Partial<Evidence>,
  expected: string,
): JudgeCase {
  return {
    name,
    find({ followStretch }) {
      const reached = followStretch(from, { head: headAt(6), stretch, auditKey })
      return 'kind' in reached ? reached.kind : describeHead(reached)
    },
    expected,
  }
}

const metadata = JSON.stringify(accepted({ policy_version: 2 ** 32 }))
const recovered = grow(headAt(3), [{ action: 'audit.rollback_accepted', metadata }, {}, {}])
const unsealed = { ...computed, sealed: headAt(2) }

const REACHED: JudgeCase[] = [
  followed('an entry has the policy version of the point, and its MAC', {}, '5 4 3'),
  followed('an entry keeps the last head with a MAC', { from: unsealed }, '5 4 2'),
  {
    name: 'an entry after an accepted rollback is not one that the rollback lost',
    find({ followStretch }) {
      const shown = {
        head: headAt(3, recovered),
        stretch: [...between(3, 3), ...recovered.entries.slice(0, 2)],
        auditKey,
      }
      return describeHead(followStretch(headAt(3), shown) as KeptHead)
    },
    expected: `5 ${2 ** 32} 3`,
  },
]

/** What a stretch of many logs does for one with these points. */
function quick(name: string, points: KeptHead[], shown: Partial<judgeModule.Shown>, expected: unknown): JudgeCase {
  return {
    name,
    find({ followAll }) {
      const found = followAll(points, { head: headAt(6), stretch: between(3, 6), auditKey, ...shown })
      return found && [found.reached.last_id, ...found.passed.map(({ last_id }) => last_id)]
    },
    expected,
  }
}

const MANY = [
  quick('of one log of many: its first head is adopted', [], {}, [6]),
  quick('of one log of many: all points on the way', [headAt(5), headAt(3)], {}, [6, 5, 3]),
  quick('of one log of many: a point beyond the stretch', [headAt(3), headAt(6)], { stretch: between(3, 5) }, [5, 3]),
  quick('of one log of many: it lacks a point on the way', [headAt(3), forkHeadAt(5)], {}, undefined),
  quick('of one log of many: its head is behind a point', [headAt(3), headAt(6)], { head: headAt(5) }, undefined),
  quick(
    'of one log of many: its head is of before a change',
    [headAt(3), { ...headAt(4), policy_version: 9 }],
    {},
    undefined,
  ),
  quick('of one log of many: it does not continue', [headAt(3)], { stretch: between(4, 6) }, undefined),
]

/** A point that was told, weighed by a process whose own policy version is 8. */
function told(name: string, point: judgeModule.Point, expected: [head: string, isForged: boolean]): JudgeCase {
  return {
    name,
    find({ weighPoint }) {
      const { head, isForged } = weighPoint(point, {
        tenant_id: TENANT,
        auditKey,
        known: { ...headAt(6), policy_version: 8 },
      })
      return [describeHead(head), isForged]
    },
    expected,
  }
}

const raised = { ...headAt(5), policy_version: 99 }
const bare = (head: Head): KeptHead => ({ last_id: head.last_id, hash: head.hash, policy_version: 99 })
const TOLD = [
  told('a line with its MAC', { by: 'file', head: headAt(5) }, ['5 6 ', false]),
  told('a line whose policy version is raised', { by: 'file', head: raised }, ['5 0 ', false]),
  told('a line without a MAC, after one with a MAC', { by: 'file', head: { ...bare(headAt(5)), sealed: headAt(3) } }, [
    '5 4 3',
    false,
  ]),
  told(
    'a line without a MAC, after one whose version is raised',
    { by: 'file', head: { ...bare(headAt(5)), sealed: { ...headAt(3), policy_version: 98 } } },
    ['5 0 ', false],
  ),
  told('a copy with its MAC', { by: 'copy', head: headAt(5) }, ['5 6 ', false]),
  told('a copy that somebody changed', { by: 'copy', head: raised }, ['5 8 ', true]),
  told('an entry that is named', { by: 'entry', head: bare(headAt(5)) }, ['5 8 ', false]),
]

/** What the installation's log says of a tenant that is there, after an anchor that is entry 5. */
const tenant = (
  name: string,
  facts: Partial<Parameters<Judge['judgeTenant']>[0]>,
  expected: ReturnType<Judge['judgeTenant']>,
): JudgeCase => ({
  name: `a tenant ${name}`,
  find: ({ judgeTenant }) => judgeTenant({ present_id: 0, gone_id: 0, anchor_id: 5, isCovered: false, ...facts }),
  expected,
})

const TENANTS = [
  tenant('that the anchor covers', { present_id: 2, isCovered: true }, 'on record'),
  tenant('that was created after the anchor', { present_id: 6 }, 'on record'),
  tenant('that was created before the first anchor', { present_id: 2, anchor_id: undefined }, 'on record'),
  tenant('that is put back, and whose removal is hidden', { present_id: 2 }, 'uncovered'),
  tenant('that somebody inserted', {}, 'unknown'),
  tenant('that is put back after it was accepted as gone', { gone_id: 4 }, 'gone'),
  tenant('that is put back, though an anchor covered it', { gone_id: 4, isCovered: true }, 'gone'),
]

const later = (name: string, one: Witness, other: Witness, expected: string): JudgeCase => ({
  name,
  find: ({ laterOf }) => describeHead(laterOf(one, other)),
  expected,
})

/** Whether an acceptance explains that a log lacks a head that was kept elsewhere. */
const kept = (name: string, head: KeptHead, facts: Partial<AcceptedRollback>, expected: boolean): JudgeCase => ({
  name: `a kept head ${name}`,
  find: ({ explainsKept }) => explainsKept(accepted(facts), head, { tenant_id: TENANT, auditKey }),
  expected,
})

const OTHERS: JudgeCase[] = [
  later('an alarm states the later entry', headAt(3), headAt(6), '6 7 '),
  later('an alarm states the later entry, whichever is first', headAt(6), headAt(3), '6 7 '),
  later(
    'an alarm states the higher policy version of one entry',
    headAt(3),
    { ...headAt(3), policy_version: 9 },
    '3 9 ',
  ),
  {
    name: 'an alarm about several points states the latest one',
    find: ({ latestLoss }) => latestLoss([3, 6, 5].map((id) => ({ witness: headAt(id), fault: `fault ${id}` })))?.fault,
    expected: 'fault 6',
  },
  {
    name: 'a changed copy takes the policy version of the log, and no MAC',
    find: ({ changedAnchored }) => changedAnchored(headAt(5), 9).witness,
    expected: { last_id: 5, hash: headAt(5).hash, policy_version: 9 },
  },
  kept('of before the acceptance is explained', headAt(5), {}, true),
  kept('of after the acceptance is not', headAt(5), { policy_version: 6 }, false),
  kept('whose policy version nothing proves is not', raised, {}, false),
  kept('that the acceptance names is, though nothing proves its policy version', bare(headAt(6)), {}, true),
  kept('of the entry that it names, with another hash, is not', bare(forkHeadAt(6)), {}, false),
  kept('beyond the acceptance is not', headAt(6), { witnessed_id: 5 }, false),
  kept('that the acceptance kept is not', headAt(5), { agrees_through: 5 }, false),
  {
    name: 'only an entry that says so accepts a rollback',
    find: ({ readAcceptance }) =>
      [
        { action: 'audit.rollback_accepted' as const, metadata },
        { action: 'key.wrap' as const, metadata },
        { action: 'audit.rollback_accepted' as const, metadata: metadata.replace('4294967296', '-1') },
      ].map((entry) => readAcceptance(entry)?.policy_version),
    expected: [2 ** 32, undefined, undefined],
  },
]

export const JUDGE_CASES: readonly JudgeCase[] = [
  ...HONEST,
  ...READ,
  ...ATTACKS,
  ...REACHED,
  ...MANY,
  ...TOLD,
  ...TENANTS,
  ...OTHERS,
]
