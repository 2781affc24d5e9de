// `eaas-audit rights` as an auditor runs it, of a log whose beginning a purge took.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  CLERK,
  CUSTOMERS,
  DEPARTURE,
  departure,
  ORDERS,
  OWNER,
  PURGED_THROUGH,
  purgedLog,
  SHOP,
  SIGNED_AT,
} from '../../../../test/support/audit/reported-log.js'
import { cutExport, publicKey, writeExport } from '../../../../test/support/audit/written-export.js'
import { runAuditCommand } from '../../../../test/support/service/command-host.js'

const READER = '6f1b6c1e-3a5e-4f0e-8f57-2f6a0f6f3f04'
const RESTATED_THROUGH = 11
const LATE = '2026-06-01T00:00:00.000Z'

let folder: string
let whole: string
let purged: string
/** begins after the restatements, so it never says in which state CUSTOMERS is */
let part: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-rights-'))
  const reader = { api_key_id: READER, permissions: 'audit:read', expires_at: null, allowed_ips: null }
  const created = { action: 'api_key.create', created_at: '2026-03-04T00:00:00.000Z', actor: OWNER, metadata: reader }
  const lines = [...writeExport([...purgedLog(), created], SIGNED_AT)]
  whole = join(folder, 'whole.ndjson')
  purged = join(folder, 'purged.ndjson')
  part = join(folder, 'part.ndjson')
  await writeFile(whole, lines.join(''))
  await writeFile(purged, cutExport(lines, [PURGED_THROUGH], SIGNED_AT)[1] ?? '')
  await writeFile(part, cutExport(lines, [RESTATED_THROUGH], SIGNED_AT)[1] ?? '')
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const rights = (file: string, at: string, ...more: string[]) =>
  runAuditCommand(['rights', file, '--at', at, '--public-key', publicKey, ...more])

async function whoCouldUse(file: string, at: string, key_id: string): Promise<string[]> {
  const { stdout } = await rights(file, at, '--key-id', key_id, '--json')
  return JSON.parse(stdout).api_keys.map(({ api_key_id }: { api_key_id: string }) => api_key_id)
}

describe('eaas-audit rights --key-id', () => {
  it('lists who could use a key whose state is not known, by what each API key was granted', async () => {
    expect(await whoCouldUse(part, LATE, CUSTOMERS)).toEqual([OWNER, SHOP])
    expect(await whoCouldUse(purged, LATE, CUSTOMERS)).toEqual([CLERK, OWNER, SHOP])
  })

  it('lists who could use a key that no entry names by then, if entries before are missing', async () => {
    expect(await whoCouldUse(purged, LATE, ORDERS)).toEqual([CLERK, OWNER, SHOP])
    expect((await rights(purged, LATE, '--key-id', ORDERS)).stdout).toContain(
      `UNKNOWN  the state of key ${ORDERS}, which no entry names by then: the API keys are those whose grants allow it`,
    )
  })

  it('lists nobody for a key that did not exist by then', async () => {
    expect(await whoCouldUse(whole, LATE, ORDERS)).toEqual([])
    expect((await rights(whole, LATE, '--key-id', ORDERS)).stdout).not.toContain('UNKNOWN')
  })
})

describe('eaas-audit rights', () => {
  it('says which copies of keys are not known', async () => {
    const line = `UNKNOWN  copies of keys that were exported by the entries through ${PURGED_THROUGH}: they are not in this log`
    expect((await rights(purged, LATE)).stdout).toContain(line)
    expect((await rights(whole, LATE)).stdout).not.toContain('UNKNOWN')
  })

  it('names the move with which the tenant left', async () => {
    const left = join(folder, 'left.ndjson')
    await writeFile(left, [...writeExport([...purgedLog(), departure(RESTATED_THROUGH)], SIGNED_AT)].join(''))
    expect(await rights(left, SIGNED_AT)).toMatchObject({
      code: 4,
      stdout: expect.stringContaining(`MOVED    by entry 15 ${DEPARTURE}`),
    })
    const { moves } = JSON.parse((await rights(left, SIGNED_AT, '--json')).stdout)
    expect(moves).toMatchObject([{ entry_id: 15, from: 'key-a', to: 'key-b' }])
  })

  it('leaves an API key as it was where an entry of a later version tells of it', async () => {
    const grant = { api_key_id: READER, permissions: 'audit:read', expires_at: null, allowed_ips: null }
    const drafts = [
      ...purgedLog(),
      ...[
        { action: 'api_key.create', metadata: grant },
        { action: 'api_key.revoke', metadata: { api_key_id: READER, replaces: 15 } },
        { action: 'api_key.later_action', metadata: { api_key_id: READER } },
      ].map((draft) => ({ ...draft, created_at: '2026-03-04T00:00:00.000Z', actor: OWNER })),
    ]
    const log = join(folder, 'later.ndjson')
    await writeFile(log, [...writeExport(drafts, SIGNED_AT)].join(''))
    const { api_keys } = JSON.parse((await rights(log, LATE, '--json')).stdout)
    expect(api_keys).toContainEqual(
      expect.objectContaining({ api_key_id: READER, status: 'revoked', permissions: ['audit:read'], entry_id: 16 }),
    )
  })

  it('says of a time whose changes a rollback may have lost that it does not know, and ends with 4', async () => {
    const rolledBack = join(folder, 'rolled-back.ndjson')
    const acceptedAt = '2026-03-10T00:00:00.000Z'
    const told = { agrees_through: RESTATED_THROUGH, policy_version: 1, reason: 'restored', witnessed_id: 20 }
    const accepted = { action: 'audit.rollback_accepted', created_at: acceptedAt, metadata: told }
    await writeFile(rolledBack, [...writeExport([...purgedLog(), accepted], SIGNED_AT)].join(''))
    const [, lastKept] = (await readFile(rolledBack, 'utf8'))
      .split('\n')
      .slice(RESTATED_THROUGH, RESTATED_THROUGH + 2)
      .map((line) => JSON.parse(line).created_at)
    const line =
      'UNKNOWN  whether these were the rights at that time, as a lost entry may have changed them: by entry 15, audit.rollback_accepted, '
    for (const at of [lastKept, '2026-03-09T23:59:59.999Z']) {
      const ended = await rights(rolledBack, at)
      expect([ended.code, ended.stdout]).toEqual([4, expect.stringContaining(line)])
      const { losses } = JSON.parse((await rights(rolledBack, at, '--json', '--key-id', CUSTOMERS)).stdout)
      expect(losses).toMatchObject([{ entry_id: 15, agrees_through: RESTATED_THROUGH, lost_through: 20 }])
    }
    // Before the first lost entry, and from the acceptance on, the log has all that counted.
    for (const at of ['2026-01-15T00:00:00.000Z', acceptedAt, LATE]) {
      const ended = await rights(rolledBack, at)
      expect([ended.code, ended.stdout]).toEqual([0, expect.not.stringContaining('UNKNOWN')])
      expect(JSON.parse((await rights(rolledBack, at, '--json')).stdout).losses).toEqual([])
    }
  })
})

describe('of a log that a clock dated ahead', () => {
  const AHEAD = '2036-01-05T00:00:00.000Z'
  const ACCEPTED_AT = '2026-06-10T00:00:00.000Z'
  // The last entry of the history is 14, of 3 March.
  const created = {
    ...{ action: 'api_key.create', created_at: AHEAD, actor: OWNER },
    metadata: { api_key_id: READER, permissions: 'audit:read', expires_at: null, allowed_ips: null },
  }
  const accepted = {
    ...{ action: 'audit.clock_accepted', created_at: ACCEPTED_AT },
    metadata: { ahead_until: AHEAD, reason: 'battery' },
  }
  const shown = { signed: `the log was signed at ${SIGNED_AT}`, accepted: `entry 16, which follows, ${ACCEPTED_AT}` }
  const write = async (how: keyof typeof shown) => {
    const log = join(folder, `ahead-${how}.ndjson`)
    const drafts = [...purgedLog(), created, ...(how === 'accepted' ? [accepted] : [])]
    await writeFile(log, [...writeExport(drafts, SIGNED_AT)].join(''))
    return log
  }

  it.each(['signed', 'accepted'] as const)('eaas-audit rights says UNKNOWN, and ends with 4: %s', async (how) => {
    const log = await write(how)
    const said = `UNKNOWN  whether these were the rights at that time, as a clock was ahead: entry 15 is dated ${AHEAD}, and ${shown[how]}, so what is dated from then on may have changed them. List it with eaas-audit entries and --from=${AHEAD}\n`
    for (const at of how === 'signed' ? [LATE, SIGNED_AT] : [LATE]) {
      const ended = await rights(log, at)
      expect([at, ended.code, ended.stdout]).toEqual([at, 4, expect.stringContaining(said)])
    }
    const { ahead } = JSON.parse((await rights(log, LATE, '--json', '--key-id', CUSTOMERS)).stdout)
    expect(ahead).toMatchObject({ entry: { id: 15, created_at: AHEAD } })
  })

  it('eaas-audit rights knows those of before the clock was ahead, and from when it was accepted on', async () => {
    const log = await write('accepted')
    for (const [at, names] of [
      ['2026-03-02T12:00:00.000Z', [OWNER, SHOP, CLERK]],
      [ACCEPTED_AT, [OWNER, SHOP, CLERK, READER]],
      [SIGNED_AT, [OWNER, SHOP, CLERK, READER]],
    ] as const) {
      const { code, stdout } = await rights(log, at, '--json')
      const { api_keys, ahead } = JSON.parse(stdout)
      expect([at, code, ahead]).toEqual([at, 0, undefined])
      expect(api_keys.map(({ api_key_id }: { api_key_id: string }) => api_key_id).sort()).toEqual([...names].sort())
    }
  })

  it.each(['signed', 'accepted'] as const)('eaas-audit entries says AHEAD, and ends with 4: %s', async (how) => {
    const log = await write(how)
    const entries = (...args: string[]) =>
      runAuditCommand(['entries', log, '--public-key', publicKey, '--action', 'api_key.create', ...args])
    const ended = await entries('--from', ACCEPTED_AT, '--to', SIGNED_AT)
    const said = `AHEAD  entries of this time may be dated after it, as a clock was ahead: entry 15 is dated ${AHEAD}, and ${shown[how]}; list them with --from=${AHEAD}\n`
    expect([ended.code, ended.stdout]).toEqual([4, `0 entries of a valid export.\n${said}`])
    const { ahead } = JSON.parse((await entries('--to', LATE, '--json')).stdout.trimEnd().split('\n').at(-1) ?? '')
    expect(ahead).toMatchObject({ entry: { id: 15, created_at: AHEAD } })
    for (const whole of [[`--from=${AHEAD}`], [], ['--to', '2026-03-02T12:00:00Z']])
      expect(await entries(...whole)).toMatchObject({ code: 0, stdout: expect.not.stringContaining('AHEAD') })
  })
})
