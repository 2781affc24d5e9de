// Each guard of the code that judges the log is needed: a server without it takes what it must refuse. These tests patch and load the
// server's own source; guards.json lists the guards and how the source reads without each.
import { createSecretKey, generateKeyPairSync } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { decodeHex } from '@eaas/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { SigningKey } from '../../../packages/audit/src/crypto.js'
import anchors from '../../../packages/audit/src/formats/anchor.vectors.json' with { type: 'json' }
import { encodePublicKey, signCheckpoint } from '../../../packages/audit/src/formats/checkpoint.js'
import notes from '../../../packages/audit/src/formats/checkpoint.vectors.json' with { type: 'json' }
import cosignatures from '../../../packages/audit/src/formats/cosignature.vectors.json' with { type: 'json' }
import vectors from '../../../packages/audit/src/formats/export.vectors.json' with { type: 'json' }
import type * as keyChangeModule from '../../../packages/audit/src/formats/key-change.js'
import { signKeyChange } from '../../../packages/audit/src/formats/key-change.js'
import keyChanges from '../../../packages/audit/src/formats/key-change.vectors.json' with { type: 'json' }
import type * as merkleModule from '../../../packages/audit/src/formats/merkle.js'
import trees from '../../../packages/audit/src/formats/merkle.vectors.json' with { type: 'json' }
import type * as stretchModule from '../../../packages/audit/src/formats/stretch.js'
import { readTreeKey } from '../../../packages/audit/src/formats/tree.js'
import { signerOf } from '../../../packages/audit/src/node/signing-key.js'
import type * as exportedAnchorModule from '../../../packages/audit/src/verify/exported-anchor.js'
import * as exportedAnchor from '../../../packages/audit/src/verify/exported-anchor.js'
import { isLinks, readAnchorLine, readLinksLine } from '../../../packages/audit/src/verify/read-export.js'
import type * as rightsModule from '../../../packages/audit/src/verify/rights-history.js'
import { splitLines } from '../../../packages/audit/src/verify/split-lines.js'
import type * as verifyExportModule from '../../../packages/audit/src/verify/verify-export.js'
import * as verifyExportFile from '../../../packages/audit/src/verify/verify-export.js'
import { readLogList } from '../../../packages/audit/src/witness/config.js'
import type * as judgeModule from '../../../packages/audit/src/witness/judge.js'
import { extendChain, genesisHead } from '../../../packages/server/src/core/audit/formats/chain.js'
import type * as listedModule from '../../../packages/server/src/core/audit/listed-entries.js'
import type * as recordedTenantsModule from '../../../packages/server/src/core/audit/recorded-tenants.js'
import type * as newestModule from '../../../packages/server/src/core/store/newest-entry.js'
import type * as namedEntriesModule from '../../../packages/server/src/guard/named-entries.js'
import type * as logJudgeModule from '../../../packages/server/src/guard/watch/judge.js'
import type * as keptModule from '../../../packages/server/src/guard/watch/kept-witnesses.js'
import type * as newestAnchorModule from '../../../packages/server/src/guard/watch/newest-anchor.js'
import { JUDGE_CASES, type JudgeCase } from '../../support/audit/judge-cases.js'
import { optionsOf, refusedExport } from '../../support/audit/refused-export.js'
import { loadFile, readSource, useMutantFolder } from './mutant-server.js'
import { listGuardMutants } from './mutants.js'

const HISTORY = '../../../../audit/src/verify/rights-history.ts'
const RECORDED = '../../../../audit/src/verify/recorded-rights.ts'
const VERIFIER = '../../../../audit/src/verify/verify-export.ts'

const key = createSecretKey(Buffer.alloc(32, 1))

useMutantFolder()

/** The names of the cases that throw though they must not, or the other way round. */
function findWronglyTaken<Case extends { name: string }>(
  cases: readonly Case[],
  { isRefused, take }: { isRefused: boolean; take: (one: Case) => unknown },
): string[] {
  return cases.flatMap((one) => {
    try {
      take(one)
      return isRefused ? [one.name] : []
    } catch {
      return isRefused ? [] : [one.name]
    }
  })
}

/** Tests that a file refuses what it must, and that it would not without any one of its guards. */
function describeGuards<Module>(
  file: Parameters<typeof listGuardMutants>[0],
  findWrong: (server: Module) => string[] | Promise<string[]>,
  load: typeof loadFile<Module> = loadFile,
): void {
  const stem = file.replace(/^\W+|\.ts$/g, '').replace(/\W+/g, '-') // of the whole path: two files are called judge.ts

  it('is refused for each fault, and else taken', async () => {
    const source = await readSource(file)
    expect(await findWrong(await load(stem, file, source))).toEqual([])
  })

  it.each(listGuardMutants(file).map((mutant, at) => ({ ...mutant, at })))(
    'would be taken or refused wrongly without the guard that $guard',
    async ({ text, at }) => expect(await findWrong(await load(`${stem}-${at}`, file, text))).not.toEqual([]),
  )
}

describe('the history of rights', () => {
  const REFUSED = vectors.refuse
    .filter(({ fault }) => fault !== undefined)
    .map((row) => {
      const [header = '', ...lines] = refusedExport(row).toString().split('\n').slice(0, -2)
      const entries = lines.map((line) => JSON.parse(line))
      return { name: row.name, fault: row.fault, after_id: JSON.parse(header).after_id, entries }
    })

  /** Loads the two files of the history, one of them patched. */
  async function loadRights(name: string, patched: { history?: string; recorded?: string } = {}) {
    const { history = await readSource(HISTORY), recorded = await readSource(RECORDED) } = patched
    await loadFile(`recorded-${name}`, RECORDED, recorded)
    return loadFile<typeof rightsModule>(
      name,
      HISTORY,
      history.replace("'./recorded-rights.js'", `'./recorded-${name}.ts'`),
    )
  }

  /** The first vector that a server takes though it must refuse it, or refuses with another fault. */
  function findTaken({ createRightsHistory }: typeof rightsModule): string[] {
    const taken = REFUSED.find(({ after_id, entries, fault: expected }) => {
      const history = createRightsHistory({ after_id })
      const faults = [...entries.map((entry) => history.read(entry)), history.end()]
      return faults.find((fault) => fault !== undefined) !== expected
    })
    return taken ? [taken.name] : []
  }

  it('is refused for each fault', async () => {
    expect(findTaken(await loadRights('rights'))).toEqual([])
  })

  it.each(listGuardMutants(HISTORY).map((mutant, at) => ({ ...mutant, at })))(
    'would not be refused by a server without the guard that $guard',
    async ({ text, at }) => {
      expect(findTaken(await loadRights(`rights-${at}`, { history: text }))).not.toEqual([])
    },
  )

  it.each(listGuardMutants(RECORDED).map((mutant, at) => ({ ...mutant, at })))(
    'would not be refused by a server without the guard that $guard',
    async ({ text, at }) => {
      expect(findTaken(await loadRights(`rights-on-record-${at}`, { recorded: text }))).not.toEqual([])
    },
  )
})

describe('a row that grants rights', () => {
  const CASES: [what: string, row: { entry_id: number; newest_entry: number | null }, isRefused: boolean][] = [
    ['the newest', { entry_id: 7, newest_entry: 7 }, false],
    ['an older one', { entry_id: 6, newest_entry: 7 }, true],
    ['one of an entry to come', { entry_id: 8, newest_entry: 7 }, true],
    ['one without an entry', { entry_id: 5, newest_entry: null }, true],
  ]
  describeGuards<typeof newestModule>('../store/newest-entry.ts', ({ findPutBack }) =>
    CASES.filter(
      ([, row, isRefused]) => (findPutBack({ tenant_id: 't', ...row }, 'a key') !== undefined) !== isRefused,
    ).map(([what]) => what),
  )
})

describe('a page of the log', () => {
  const PAGE = { tenant_id: 't', auditKey: key, range: { after_id: 2, through_id: 6 } }
  /** Entries 3 to 6 of a chain. */
  function page() {
    const draft = {
      action: 'key.wrap',
      key_id: null,
      key_version: null,
      actor: 'a',
      ip_address: null,
      metadata: null,
    } as const
    const head = genesisHead(key, 't', '2026-01-01T00:00:00.000Z')
    const { entries } = extendChain(head, Array(6).fill(draft), { auditKey: key, now: 0 })
    return entries.slice(2).map((entry, at) => ({ ...entry, previous_hash: entries[at + 1]?.hash ?? null }))
  }
  type Listed = ReturnType<typeof page>[number]
  const CASES: [what: string, broken: number | undefined, change: (entries: Listed[]) => Listed[]][] = [
    ['as it was written', undefined, (entries) => entries],
    ['in reverse', undefined, (entries) => entries.reverse()],
    ['with an edited entry', 4, ([a, b, ...rest]) => [a, { ...b, actor: 'x' }, ...rest] as Listed[]],
    [
      'with an entry whose hash is another',
      4,
      ([a, b, ...rest]) => [a, { ...b, hash: new Uint8Array(32) }, ...rest] as Listed[],
    ],
    [
      'with an entry whose MAC is another',
      4,
      ([a, b, ...rest]) => [a, { ...b, mac: new Uint8Array(32) }, ...rest] as Listed[],
    ],
    ['without one in the middle', 4, ([a, , ...rest]) => [a, ...rest] as Listed[]],
    ['without the last', 6, (entries) => entries.slice(0, -1)],
    ['without any', 3, () => []],
    ['without the one before', 2, ([a, ...rest]) => [{ ...a, previous_hash: null }, ...rest] as Listed[]],
  ]
  /** What a log shipper is given: no gap is named, and the entry behind it does not follow. */
  const FOLLOWED: typeof CASES = [
    ...CASES.slice(0, 1),
    ...CASES.slice(2, 5),
    ['without one in the middle', 5, ([a, , ...rest]) => [a, ...rest] as Listed[]],
  ]
  const findWrong = ({ assertListed, assertFollowing }: typeof listedModule) => {
    const isWrong = (broken: number | undefined, prove: () => void) => {
      try {
        prove()
        return broken !== undefined
      } catch (error) {
        return (error as { entry_id?: number }).entry_id !== broken
      }
    }
    const before = () => page()[0]?.previous_hash ?? new Uint8Array(32)
    return [
      ...CASES.filter(([, broken, change]) => isWrong(broken, () => assertListed(change(page()), PAGE))),
      ...FOLLOWED.filter(([, broken, change]) =>
        isWrong(broken, () => assertFollowing(change(page()), { ...PAGE, hash: before() })),
      ),
    ].map(([what]) => what)
  }

  describeGuards<typeof listedModule>('listed-entries.ts', findWrong)
})

describe('a statement about a stretch', () => {
  const { sign_stretch, refuse_stretch, public_key } = notes
  describeGuards<typeof stretchModule>('../../../../audit/src/formats/stretch.ts', ({ readStretch }) => [
    ...findWronglyTaken(sign_stretch, {
      isRefused: false,
      take({ note, public_key, statement: { head_hash } }) {
        if (Buffer.from(readStretch(note, public_key).head_hash).toString('hex') !== head_hash)
          throw new Error('another head')
      },
    }),
    ...findWronglyTaken(refuse_stretch, { isRefused: true, take: ({ note }) => readStretch(note, public_key) }),
  ])
})

describe('a statement about a new signing key', () => {
  const { sign, refuse, follow, refuse_lists, state, refuse_installation } = keyChanges
  describeGuards<typeof keyChangeModule>(
    '../../../../audit/src/formats/key-change.ts',
    ({ readKeyChange, followKeyChanges, findKeyChange, readInstallation }) => [
      ...findWronglyTaken(state, { isRefused: false, take: ({ note }) => readInstallation(note) }),
      ...findWronglyTaken(refuse_installation, { isRefused: true, take: ({ note }) => readInstallation(note) }),
      ...findWronglyTaken(sign, {
        isRefused: false,
        take({ note, from, to }) {
          const read = readKeyChange(note)
          if (read.from !== from || read.to !== to) throw new Error('other keys')
        },
      }),
      ...findWronglyTaken(refuse, { isRefused: true, take: ({ note }) => readKeyChange(note) }),
      ...findWronglyTaken(follow, { isRefused: false, take: ({ notes }) => followKeyChanges(notes) }),
      ...findWronglyTaken(refuse_lists, { isRefused: true, take: ({ notes }) => followKeyChanges(notes) }),
      ...refuse.filter(({ note }) => findKeyChange(note) !== undefined).map(({ name }) => name),
    ],
  )
})

describe('what the log of the installation says of tenants', () => {
  const [A, B, C] = [0xa, 0xb, 0xc].map((last) => `6f9619ff-8b86-4011-b42d-00c04fc964f${last.toString(16)}`)
  const [a, b, c] = [A, B, C].map((tenant_id) => JSON.stringify({ tenant_id }))
  const written = (...entries: [action: string, metadata: string | null | undefined][]) =>
    entries.map(([action, metadata = null], at) => ({ id: at + 1, action: `installation.${action}`, metadata }))
  const named = (tenant_id: string | undefined, entry_id: unknown) =>
    JSON.stringify({ tenant_id, entry_id, entry_hash: 'ab'.repeat(32) })
  const CASES: {
    name: string
    entries: ReturnType<typeof written>
    present: [string | undefined, number][]
    gone: [string | undefined, number][]
    ends?: [string | undefined, number][]
    statuses?: [string | undefined, string][]
  }[] = [
    { name: 'nothing', entries: [], present: [], gone: [] },
    {
      name: 'changed, with the entries of the changes',
      entries: written(
        ['tenant_create', a],
        ['tenant_suspend', named(A, 9)],
        ['tenant_update', named(A, 7)],
        ['tenant_resume', a],
        ['tenant_update', named(A, '12')],
        ['tenant_delete', named(B, 3)],
      ),
      present: [[A, 1]],
      gone: [],
      ends: [
        [A, 9],
        [B, 3],
      ],
      statuses: [
        [A, 'active'],
        [B, 'deleted'],
      ],
    },
    {
      name: 'changed before and after a rollback that was accepted',
      entries: written(
        ['tenant_create', a],
        ['tenant_suspend', named(A, 9)],
        ['rollback_accepted', named(A, 4)],
        ['tenant_update', named(A, 6)],
      ),
      present: [[A, 3]],
      gone: [],
      ends: [[A, 6]],
    },
    {
      name: 'created',
      entries: written(['tenant_create', a], ['tenant_create', b]),
      present: [
        [A, 1],
        [B, 2],
      ],
      gone: [],
    },
    { name: 'gone', entries: written(['tenant_create', a], ['tenant_gone', a]), present: [], gone: [[A, 2]] },
    {
      name: 'accepted again',
      entries: written(['tenant_create', a], ['tenant_gone', a], ['rollback_accepted', a], ['rollback_accepted', c]),
      present: [
        [A, 3],
        [C, 4],
      ],
      gone: [],
    },
    {
      name: 'edited',
      entries: written(
        ['tenant_create', '{"'],
        ['tenant_create', null],
        ['tenant_create', '{"tenant_id":7}'],
        ['tenant_create', '{"tenant_id":"acme"}'],
        ['tenant_create', 'null'],
      ),
      present: [],
      gone: [],
    },
  ]
  const HASH = 'ab'.repeat(32)
  const HEADS: [metadata: string | null, head: { last_id: number; hash: Uint8Array } | undefined][] = [
    [JSON.stringify({ witnessed_id: 3, witnessed_hash: HASH }), { last_id: 3, hash: new Uint8Array(32).fill(0xab) }],
    [JSON.stringify({ witnessed_id: 0, witnessed_hash: HASH }), undefined],
    [JSON.stringify({ witnessed_hash: HASH }), undefined],
    [null, undefined],
  ]
  describeGuards<typeof recordedTenantsModule>('recorded-tenants.ts', ({ recordedTenants }) =>
    findWronglyTaken(CASES, {
      isRefused: false,
      take({ entries, present, gone, ends = [], statuses = [] }) {
        const found = recordedTenants(entries)
        const named = [...found.ends].map(([tenant_id, { id }]) => [tenant_id, id])
        expect([[...found.present], [...found.gone], named]).toEqual([present, gone, ends])
        expect([...found.statuses]).toEqual(statuses)
      },
    }),
  )
  describeGuards<typeof namedEntriesModule>('../../guard/named-entries.ts', ({ lostHead }) =>
    findWronglyTaken(
      HEADS.map(([metadata, head]) => ({ name: String(metadata), metadata, head })),
      {
        isRefused: false,
        take({ metadata, head }) {
          expect(lostHead(metadata)).toEqual(head && { ...head, policy_version: 0 })
        },
      },
    ),
  )
})

describe('the leaf of a head', () => {
  const { anchor_leaves, refuse_anchor_leaves } = trees
  describeGuards<typeof merkleModule>('../../../../audit/src/formats/merkle.ts', ({ anchorLeaf }) => [
    ...findWronglyTaken(anchor_leaves, {
      isRefused: false,
      take({ hash, leaf, ...head }) {
        if (Buffer.from(anchorLeaf({ ...head, hash: decodeHex(hash) })).toString() !== leaf)
          throw new Error('another leaf')
      },
    }),
    ...findWronglyTaken(refuse_anchor_leaves, {
      isRefused: true,
      take: ({ hash, last_id, ...head }) => anchorLeaf({ ...head, last_id: last_id as number, hash: decodeHex(hash) }),
    }),
  ])
})

describe('the line of an anchor in an export', () => {
  const isAnchored = ({ name }: { name: string }) => /^(anchor|links)/.test(name)
  const FAULTS =
    /the anchor was altered|no root|without entries|does not cover this head|does not agree with the anchor|log that was signed|does not hold entry/
  const files = vectors.refuse
    .filter((row) => isAnchored(row))
    .map((row) => ({ name: row.name, file: refusedExport(row).toString() }))
  /** What the functions of the file do with the lines of a file. */
  function take({ assertCovers, readAnchorPosition, assertLinks }: typeof exportedAnchorModule, file: string): void {
    const [header = '', ...lines] = file.split('\n')
    const line = lines.find((text) => text.startsWith('{"anchor"'))
    const trailer = lines.findLast((text) => text.includes('"public_key"'))
    if (line === undefined || trailer === undefined) throw new Error('no anchor')
    const covered = readAnchorLine(line)
    assertCovers(covered, JSON.parse(header).tenant_id)
    const { public_key } = JSON.parse(trailer)
    const { head_id } = readAnchorPosition(covered, public_key)
    const links = lines.find(isLinks)
    if (links === undefined) return
    assertLinks(readLinksLine(links), { anchor: covered.anchor, head_id }, readTreeKey(public_key))
  }
  const messageOf = (server: typeof exportedAnchorModule, file: string) => {
    try {
      take(server, file)
      return ''
    } catch (error) {
      return (error as Error).message
    }
  }

  const refused = files
    .map((one) => ({ ...one, message: messageOf(exportedAnchor, one.file) }))
    .filter(({ message }) => FAULTS.test(message))

  describeGuards<typeof exportedAnchorModule>('../../../../audit/src/verify/exported-anchor.ts', (server) => {
    const other = refused.find(({ file, message }) => messageOf(server, file) !== message)
    return other ? [other.name] : []
  })

  it('is refused by most of its guards in the published exports', () => {
    expect(refused.length).toBeGreaterThan(10)
  })
})

describe('an export', () => {
  // Those to be refused come first: most servers without a guard are found out by one of them.
  const files = [
    ...vectors.refuse.map((row) => ({ ...row, file: refusedExport(row) })),
    ...vectors.valid.map(({ name, file, ...known }) => ({ name, file: Buffer.from(file), ...known })),
  ].map(({ name, file, ...given }: { name: string; file: Buffer } & Parameters<typeof optionsOf>[0]) => ({
    name,
    file,
    options: optionsOf(given),
  }))
  const judge = ({ verifyExport }: typeof verifyExportModule, { file, options }: (typeof files)[number]) =>
    verifyExport(splitLines([file]), options)

  let genuine: unknown[]
  beforeAll(async () => {
    genuine = await Promise.all(files.map((one) => judge(verifyExportFile, one)))
  })
  /** The first file that is judged otherwise. */
  async function findOther(server: typeof verifyExportModule): Promise<string[]> {
    for (const [at, one] of files.entries()) {
      if (!isDeepStrictEqual(await judge(server, one), genuine[at])) return [one.name]
    }
    return []
  }
  describeGuards<typeof verifyExportModule>(VERIFIER, findOther)

  describe('with checkpoints', () => {
    describeGuards<typeof verifyExportModule>(
      '../../../../audit/src/verify/compare-checkpoints.ts',
      findOther,
      async (name, file, text) => {
        await loadFile(name, file, text)
        const source = (await readSource(VERIFIER)).replace("'./compare-checkpoints.js'", `'./${name}.ts'`)
        return loadFile(`verifier-by-${name}`, VERIFIER, source)
      },
    )
  })
})

describe('a log that a server saw before', () => {
  const isWrong = (server: typeof logJudgeModule, { find, expected }: JudgeCase) => {
    try {
      return !isDeepStrictEqual(find(server), expected)
    } catch {
      return true
    }
  }
  describeGuards<typeof logJudgeModule>('../../guard/watch/judge.ts', (server) =>
    JUDGE_CASES.filter((one) => isWrong(server, one)).map(({ name }) => name),
  )
})

describe('the anchored heads', () => {
  const [one, two, three] = anchors.anchors.slice(1)
  const headsOf = (list: typeof one) => (list?.heads ?? []).map((head) => ({ ...head, hash: decodeHex(head.hash) }))
  const entryOf = (list: typeof one) => ({ id: 7, metadata: list?.metadata ?? '' })
  const CASES = [
    { name: 'none', id: undefined, entry: undefined, heads: [], isRefused: false },
    { name: 'those of the anchor', id: 7, entry: entryOf(three), heads: headsOf(three), isRefused: false },
    { name: 'heads without an anchor', id: undefined, entry: undefined, heads: headsOf(one), isRefused: true },
    { name: 'under an anchor that is not authentic', id: 7, entry: undefined, heads: headsOf(three), isRefused: true },
    { name: 'one less', id: 7, entry: entryOf(three), heads: headsOf(two), isRefused: true },
    { name: 'one more', id: 7, entry: entryOf(two), heads: headsOf(three), isRefused: true },
    {
      name: 'the root of one more',
      id: 7,
      entry: { id: 7, metadata: three?.metadata.replace('"tenants":3', '"tenants":2') },
      heads: headsOf(two),
      isRefused: true,
    },
    {
      name: 'another number under the right root',
      id: 7,
      entry: { id: 7, metadata: three?.metadata.replace('"tenants":3', '"tenants":4') },
      heads: headsOf(three),
      isRefused: true,
    },
  ]
  describeGuards<typeof newestAnchorModule>('../../guard/watch/newest-anchor.ts', ({ compareAnchor }) =>
    [true, false].flatMap((isRefused) =>
      findWronglyTaken(
        CASES.filter((one) => one.isRefused === isRefused),
        { isRefused, take: ({ id, entry, heads }) => compareAnchor({ id, entry, heads } as never) },
      ),
    ),
  )
})

describe('a file of checkpoints', () => {
  const [own, stranger, next] = [0, 1, 2].map(() => signerOf(generateKeyPairSync('ed25519').privateKey)) as [
    SigningKey,
    SigningKey,
    SigningKey,
  ]
  const publicKey = encodePublicKey(own)
  const [A, B] = ['6f9619ff-8b86-4011-b42d-00c04fc964fa', '6f9619ff-8b86-4011-b42d-00c04fc964fb']
  /** What is added to a policy version when a rollback is accepted (chain.md 10). */
  const EPOCH = 2 ** 32
  const created_at = '2026-01-01T00:00:00.000Z'

  const auditKey = createSecretKey(Buffer.alloc(32, 7))
  function headOf(last_id: number, policy_version = last_id, { tenant_id = A, hash = last_id } = {}) {
    const before = {
      tenant_id,
      last_id,
      hash: new Uint8Array(32).fill(hash),
      policy_version,
      created_at,
      mac: new Uint8Array(32),
    }
    const { head } = extendChain(before, [], { auditKey, now: 0 })
    return { created_at, mac: Buffer.from(head.mac).toString('base64') }
  }
  const findAuditKeys = async () => new Map([[A, auditKey]])
  function line(last_id: number, changed: object = {}, { tenant_id = A, hash = last_id, by = own } = {}): string {
    const checkpoint = signCheckpoint(by, { tenant_id, last_id, hash: new Uint8Array(32).fill(hash), created_at })
    const { policy_version = 0 } = { policy_version: last_id, ...changed } as { policy_version?: number }
    const head = headOf(last_id, policy_version, { tenant_id, hash })
    return `${JSON.stringify({ tenant_id, policy_version: last_id, checkpoint, public_key: publicKey, head, ...changed })}\n`
  }
  const forged = (last_id: number) => line(last_id, {}, { by: stranger })
  const byNext = (last_id: number, key_change: unknown = signKeyChange(own, next, created_at), by = next) =>
    line(last_id, { public_key: encodePublicKey(next), key_change }, { by })
  const NO_FORM = 'not the line'
  const CONTRADICTS = 'contradicts'

  /** The text of the file; the last entry that it witnesses of A, and whether its head has a MAC; the faults of its lines. */
  const CASES: [
    name: string,
    text: string | Uint8Array,
    witnessed: [number, boolean] | undefined,
    faults: [number, string][],
  ][] = [
    ['a log that grew', line(1) + line(2), [2, true], []],
    ['an older line of another process', line(2) + line(1), [2, true], []],
    ['calls between two lines', line(1) + line(2, { policy_version: 1 }), [2, true], []],
    ['a forged line at the end', line(1) + forged(9), [1, true], [[2, 'signature']]],
    ['a forged line before', forged(1) + line(2), [2, true], [[1, 'signature']]],
    ['a forged line alone', forged(1), undefined, [[1, 'signature']]],
    ["another tenant's line", line(1, { tenant_id: A }, { tenant_id: B }), undefined, [[1, NO_FORM]]],
    ['half a policy version', line(1, { policy_version: 1.5 }), undefined, [[1, NO_FORM]]],
    ['a negative policy version', line(1, { policy_version: -1 }), undefined, [[1, NO_FORM]]],
    ['no policy version', line(1, { policy_version: undefined }), [1, true], [[1, 'lacks']]],
    ['no public key', line(1, { public_key: undefined }), [1, true], [[1, 'lacks']]],
    ['another public key', line(1, { public_key: 'eaas-audit+0' }), [1, true], [[1, 'another signing key']]],
    ['a head whose MAC is no text', line(1, { head: { created_at, mac: 7 } }), [1, false], []],
    ['a head whose time is no text', line(1, { head: { created_at: 7, mac: '' } }), [1, false], []],
    ['an accepted rollback', line(9) + line(3, { policy_version: EPOCH + 3 }), [3, true], []],
    ['a line from before it', line(3, { policy_version: EPOCH + 3 }) + line(9), [3, true], []],
    ['an old line with a raised version', line(2) + line(1, { policy_version: EPOCH, head: headOf(1) }), [2, true], []],
    [
      'a line without a MAC, after one of before the rollback',
      line(9) +
        line(3, { policy_version: EPOCH + 3 }) +
        line(9) +
        line(5, { policy_version: EPOCH + 5, head: undefined }),
      [5, false],
      [],
    ],
    [
      'a line without a MAC of before the rollback',
      line(9) + line(3, { policy_version: EPOCH + 3 }) + line(9, { head: undefined }),
      [3, true],
      [],
    ],
    ['another hash of an entry', line(1) + line(1, {}, { hash: 7 }), [1, true], [[2, CONTRADICTS]]],
    ['another version of an entry', line(1) + line(1, { policy_version: 7 }), [1, true], [[2, CONTRADICTS]]],
    ['a version that went back', line(2) + line(3, { policy_version: 1 }), [3, true], [[2, CONTRADICTS]]],
    ['a version that was not proven', line(1) + line(1, { policy_version: 0 }) + line(2), [2, true], []],
    ['a last line that is cut', line(1) + line(2).slice(0, -9), [1, true], []],
    [
      'a line that is not UTF-8',
      Buffer.concat([Buffer.from(line(1)), Buffer.of(0xff, 0x0a)]),
      [1, true],
      [[2, 'not UTF-8']],
    ],
    ['a note', `# to self\n${line(1)}`, [1, true], [[1, NO_FORM]]],
    ['lines of a key that replaced this one', line(1) + byNext(2), [2, true], []],
    [
      'a statement by a stranger',
      line(1) + byNext(2, signKeyChange(stranger, next, created_at)),
      [1, true],
      [[2, 'another']],
    ],
    ['a statement that is none', line(1) + byNext(2, 'eaas-audit'), [1, true], [[2, 'another']]],
    ['a statement that is no text', line(1) + byNext(2, 7), [1, true], [[2, 'another']]],
    ['a forged line with a statement', line(1) + byNext(2, undefined, stranger), [1, true], [[2, 'signature']]],
  ]

  let folder: string
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'eaas-kept-'))
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))

  /** The first case that is read otherwise. */
  async function findWrong({ readKeptFile }: typeof keptModule): Promise<string[]> {
    const file = join(folder, 'checkpoints')
    await writeFile(file, '')
    const paths = [
      ['fulfilled', join(folder, 'none')],
      ['fulfilled', folder],
      ['rejected', join(file, 'below a file')],
    ] as const
    for (const [expected, path] of paths) {
      const [reading] = await Promise.allSettled([readKeptFile(path, publicKey, { isThorough: false, findAuditKeys })])
      if (reading.status !== expected) return [path]
    }
    for (const [name, text, witnessed, faults] of CASES) {
      await writeFile(file, text)
      const found = await readKeptFile(file, publicKey, { isThorough: true, findAuditKeys })
      const last = found.witnesses.get(A)
      const isWitness = isDeepStrictEqual(last && [last.last_id, last.mac !== undefined], witnessed)
      const areFaults = faults.every(
        ([number, what], at) => found.faults[at]?.line === number && found.faults[at].what.includes(what),
      )
      if (!isWitness || !areFaults || found.faults.length !== faults.length) return [name]
    }
    return []
  }
  describeGuards<typeof keptModule>('../../guard/watch/kept-witnesses.ts', findWrong)
})

describe('a request to a witness', () => {
  const [run] = cosignatures.runs
  const logs = readLogList((run?.logs ?? []).join('\n'), 'logs')

  /** The requests of the published run that are answered otherwise. */
  function findWrong({ admit, assertConsistent }: typeof judgeModule): string[] {
    let seen: Parameters<typeof assertConsistent>[1]
    return (run?.requests ?? []).flatMap(({ name, status, body }) => {
      let answered = 200
      try {
        const admitted = admit(Buffer.from(body), logs)
        assertConsistent(admitted, seen)
        if (status === 200) seen = admitted.head
      } catch (error) {
        answered = (error as { status?: number }).status ?? 500
      }
      return answered === status ? [] : [name]
    })
  }
  describeGuards<typeof judgeModule>('../../../../audit/src/witness/judge.ts', findWrong)
})
