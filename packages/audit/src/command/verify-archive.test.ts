// Several files of one log: `verify-archive`, and the commands that read them as one.
import { execFileSync } from 'node:child_process'
import { createSecretKey } from 'node:crypto'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decodeHex } from '@eaas/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ERASED, reportedLog, SIGNED_AT } from '../../../../test/support/audit/reported-log.js'
import {
  cutExport,
  type Draft,
  publicKey,
  signingKey,
  TENANT,
  writeExport,
} from '../../../../test/support/audit/written-export.js'
import { runAuditCommand } from '../../../../test/support/service/command-host.js'
import { encodePublicKey, signCheckpoint } from '../formats/checkpoint.js'
import { headerLine, trailerLine } from '../formats/export.js'
import { signKeyChange } from '../formats/key-change.js'
import { signStretch } from '../formats/stretch.js'
import { signingKeyOf } from '../node/signing-key.js'
import { readHeader } from '../verify/read-export.js'

const KEY = ['--public-key', publicKey]
const otherSigner = signingKeyOf(createSecretKey(Buffer.alloc(32, 8)))
const otherKey = encodePublicKey(otherSigner)
const OTHER_TENANT = '1c9e6d7a-0d5b-4f65-8a52-6a3d0c2b9e02'
let folder: string
let parts: string[]
let files: string[]
let number = 0

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-archive-'))
  const lines = [...writeExport(reportedLog(), SIGNED_AT)]
  parts = cutExport(lines, [100, 467], SIGNED_AT)
  files = ['a.ndjson', 'b.ndjson', 'c.ndjson'].map((name) => join(folder, name))
  for (const [at, file] of files.entries()) await writeFile(file, parts[at] ?? '')
})
afterAll(() => rm(folder, { recursive: true, force: true }))

async function archiveOf(...texts: string[]): Promise<string> {
  const path = join(folder, `archive-${++number}`)
  await mkdir(path)
  for (const [at, text] of texts.entries()) await writeFile(join(path, `${TENANT}-through-${9 - at}.ndjson`), text)
  return path
}

describe('several exports of one log', () => {
  it('verify as one, in their order', async () => {
    const { code, stdout } = await runAuditCommand(['verify', ...files, ...KEY, '--json'])
    expect(code).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ valid: true, whole: true, verified_entries: 876, missing: [] })
  })

  it('show the rights that the whole log shows', async () => {
    const whole = join(folder, 'whole.ndjson')
    await writeFile(whole, [...writeExport(reportedLog(), SIGNED_AT)].join(''))
    const rights = (...given: string[]) => runAuditCommand(['rights', ...given, ...KEY, '--at', SIGNED_AT, '--json'])
    const { code, stdout } = await rights(...files)
    expect(code).toBe(0)
    expect(JSON.parse(stdout).api_keys.length).toBeGreaterThan(1)
    expect(JSON.parse(stdout)).toEqual(JSON.parse((await rights(whole)).stdout))
    expect(await rights(...files.slice(1))).toMatchObject({ code: 4 })
    expect(await rights(files[0] ?? '', files[2] ?? '')).toMatchObject({ code: 1 })
  })

  it('do not verify with one missing, altered, cut, of another order or followed by something', async () => {
    const [one = '', two = '', three = ''] = files
    const made = async (text: string) => {
      const path = join(folder, `made-${++number}.ndjson`)
      await writeFile(path, text)
      return path
    }
    const altered = await made((parts[1] ?? '').replace('192.0.2.9', '192.0.2.8'))
    const cut = await made((parts[1] ?? '').replace(/\{"stretch".*\n$/, ''))
    const longer = await made(`${parts[1]}{"more":1}\n`)
    const lines = [...writeExport(reportedLog(), SIGNED_AT)]
    const repeating = [
      cutExport(lines, [200], SIGNED_AT)[0] ?? '',
      cutExport(lines, [60, 467], SIGNED_AT)[1] ?? '',
    ] as const
    const change = signKeyChange(otherSigner, signingKey, SIGNED_AT)
    const changed = (parts[1] ?? '').replace(/^.*\n/, (header) =>
      headerLine({ ...readHeader(header.trimEnd()), key_changes: [change] }),
    )
    for (const [given, reason] of [
      [[one, three], 'entry 101 is missing'],
      [[two, one, three], 'an export ends with entry 100, and the one before it with a later one'],
      [[await made(repeating[0]), one, two, three], 'give exports in the order in which they end'],
      [[one, await made(repeating[1].replace('"id":62,"action":"', '"id":62,"action":"x')), two, three], 'entry 62'],
      [[one, await made(repeating[1].replace('"id":62,', '"id":63,')), two, three], 'another entry 62'],
      [
        [one, await made((parts[1] ?? '').replace(/"after_hash":"[0-9a-f]{8}/, '"after_hash":"00000000')), three],
        'does not continue the one before it',
      ],
      [
        [one, await made((parts[1] ?? '').replace(SIGNED_AT, '2026-07-03T00:00:00.000Z')), three],
        'its signature does not verify',
      ],
      [
        [
          one,
          await made((parts[1] ?? '').replace(/\{"stretch".*\n$/, `${(parts[0] ?? '').split('\n').at(-2)}\n`)),
          three,
        ],
        'does not agree with entry 467',
      ],
      [
        [one, await made((parts[1] ?? '').replace(publicKey, otherKey)), three],
        'no statement leads from one to the other',
      ],
      [
        [one, await made((parts[1] ?? '').replace(TENANT, OTHER_TENANT))],
        `the exports are of several logs: ${TENANT} and ${OTHER_TENANT}`,
      ],
      [[await made(changed), one], 'the exports state different changes of the signing key'],
      [[one, await made('more\n')], 'the line is not JSON'],
      [[one, altered, three], 'was altered'],
      [[one, cut, three], 'an export was cut short: it ends with entry 467'],
      [[one, longer, three], 'there is something after the last line of an export'],
      [[one, two, await made(`${parts[2]}more\n`)], 'there is something after the trailer'],
    ] as const) {
      const { code, stdout } = await runAuditCommand(['verify', ...given, ...KEY])
      expect([given, code, stdout]).toEqual([given, 1, expect.stringMatching(reason)])
    }
  })

  it('agree on where the log ended when each was signed, unless an operator accepted a loss', async () => {
    const LATER = '2026-09-01T00:00:00.000Z'
    const drafts = [...reportedLog()]
    const forked = drafts.with(700, { ...drafts[700], ip_address: '192.0.2.77' } as Draft)
    const accepted: Draft = {
      action: 'audit.rollback_accepted',
      created_at: LATER,
      metadata: { agrees_through: 600, witnessed_id: drafts.length, reason: 'restored' },
    }
    const made = async (log: readonly Draft[], ends: readonly number[] = [], signed_at = LATER) => {
      const path = join(folder, `made-${++number}.ndjson`)
      await writeFile(path, cutExport([...writeExport(log, signed_at)], ends, signed_at)[0] ?? '')
      return path
    }
    const archive = await made(drafts, [100], SIGNED_AT)
    const rest = drafts.slice(0, 600)
    const later = drafts.slice(601).map((draft) => ({ ...draft, created_at: LATER }))
    for (const [file, code, said] of [
      [await made(drafts), 0, 'is valid'],
      [await made(forked), 1, 'entry 876 is not the one with which the log ended when an export was signed, at 2026'],
      [await made(rest), 1, 'the log ended with entry 876 when an export was signed, at 2026.*and with entry 600 at'],
      [await made(rest, [300]), 1, 'with entry 600 at .*it was rolled back'],
      [await made([...rest, accepted]), 0, 'an operator accepted a rollback, by entry 601'],
      [await made([...rest, accepted, ...later]), 0, 'an operator accepted a rollback, by entry 601'],
      [await made([...rest, { ...accepted, created_at: rest.at(-1)?.created_at ?? '' }]), 1, 'with entry 601 at'],
      [await made(rest, [], '2026-06-30T00:00:00.000Z'), 0, 'is valid'], // signed before the archive
    ] as const) {
      const { code: ended, stdout } = await runAuditCommand(['verify', archive, file, ...KEY])
      expect([ended === 4 ? 0 : ended, stdout]).toEqual([code, expect.stringMatching(said)])
    }
  })

  it('are reported on as one, each with its SHA-256', async () => {
    const html = join(folder, 'report.html')
    const period = ['--from', '2026-02-01T00:00:00Z', '--to', '2026-07-01T00:00:00Z']
    expect(await runAuditCommand(['report', ...files, ...period, ...KEY, '--html', html])).toMatchObject({ code: 0 })
    const page = await readFile(html, 'utf8')
    expect(page.match(/<dd>[abc]\.ndjson, SHA-256 [0-9a-f]{64}<\/dd>/g)).toHaveLength(3)
    const { stdout } = await runAuditCommand(['entries', ...files, ...KEY, '--key', ERASED])
    expect(stdout).toContain('4 entries of a valid export.')
  })
})

describe('eaas-audit verify-archive', () => {
  it('takes the archives of a log for valid, though the log went on, in whatever order their names are', async () => {
    const archive = await archiveOf(parts[0] ?? '', parts[1] ?? '')
    await writeFile(join(archive, 'x.ndjson.part'), 'a draft')
    const { code, stdout } = await runAuditCommand(['verify-archive', archive, ...KEY])
    expect([code, stdout]).toEqual([0, expect.stringMatching(new RegExp(`${TENANT}  2 +1 to 467 .* valid\n`))])
    expect(await runAuditCommand(['verify-archive', archive])).toMatchObject({ code: 6 })
  })

  it('takes the archives of purges that were interrupted, each of which begins within the one before', async () => {
    const lines = [...writeExport(reportedLog(), SIGNED_AT)]
    const [[longer], [, marked]] = [cutExport(lines, [300], SIGNED_AT), cutExport(lines, [200, 467], SIGNED_AT)]
    const archive = await archiveOf(marked ?? '', longer ?? '', parts[0] ?? '')
    const { code, stdout } = await runAuditCommand(['verify-archive', archive, ...KEY])
    expect([code, stdout]).toEqual([0, expect.stringMatching(new RegExp(`${TENANT}  3 +1 to 467 .* valid\n`))])
  })

  describe('with that of an interrupted purge, whose entries those of later ones have too', () => {
    const lines = [...writeExport(reportedLog(), SIGNED_AT)]
    /** The archive of the entries after one through another. */
    const archived = (after_id: number, through_id: number, log = lines) =>
      cutExport(log, after_id === 0 ? [through_id] : [after_id, through_id], SIGNED_AT).at(-2) ?? ''
    const interrupted = archived(0, 300)
    const later = [archived(0, 100), archived(100, 130), archived(130, 160), archived(160, 467)]

    it.each([1, 2, 3, 4])('takes them, %i of the later ones', async (number) => {
      const archive = await archiveOf(interrupted, ...later.slice(0, number))
      const { code, stdout } = await runAuditCommand(['verify-archive', archive, ...KEY])
      const range = `${number + 1} +1 to ${number === 4 ? 467 : 300}`
      expect([code, stdout]).toEqual([0, expect.stringMatching(new RegExp(`${TENANT}  ${range} .* valid\n`))])
    })

    it('takes them in the order in which they end as exports too, and in no other', async () => {
      const archive = await archiveOf(...later, interrupted)
      const [one, two, three, four, whole] = (await readdir(archive)).sort().reverse()
      const verify = (...names: (string | undefined)[]) =>
        runAuditCommand(['verify', ...names.map((name) => join(archive, name ?? '')), ...KEY])
      expect(await verify(one, two, three, whole, four)).toMatchObject({ code: 4 })
      expect(await verify(one, two, three, four, whole)).toMatchObject({
        code: 1,
        stdout: expect.stringContaining('an export ends with entry 300, and the one before it'),
      })
    })

    const historyWith = (changed: number) => {
      const drafts = [...reportedLog()]
      const draft = drafts[changed - 1]
      if (draft) drafts[changed - 1] = { ...draft, ip_address: '203.0.113.9' }
      return [...writeExport(drafts, SIGNED_AT)]
    }
    const end = /\{"stretch".*\n$/
    const positionOf = (id: number) => ({ id, hash: decodeHex(JSON.parse(lines[id] ?? '').hash) })
    const [entry, head] = [positionOf(130), positionOf(lines.length - 2)]
    const signed = { tenant_id: TENANT, last_id: entry.id, hash: entry.hash, head_id: head.id, head_hash: head.hash }
    const stretch = signStretch(otherSigner, { ...signed, created_at: SIGNED_AT })
    it.each([
      ['with another entry', archived(100, 130, historyWith(110)), 'an export has another entry 110 than'],
      [
        'after other entries',
        archived(100, 130, historyWith(50)),
        'does not continue the one before it after entry 100',
      ],
      ['of another history', archived(0, 130, historyWith(130)), 'an export has another entry 130 than'],
      ['that was cut', archived(100, 130).replace(end, ''), 'an export was cut short: it ends with entry 130'],
      ['that is followed by something', `${archived(100, 130)}more\n`, 'something after the last line of an export'],
      [
        'whose signature is of another one',
        archived(100, 130).replace(end, `${later[0]?.split('\n').at(-2)}\n`),
        'what was signed does not agree with entry 130',
      ],
      [
        'that another key signed',
        archived(100, 130).replace(end, trailerLine({ stretch, public_key: otherKey })),
        'keys of which no statement leads from one to the other',
      ],
    ])('refuses one %s', async (_, text, reason) => {
      const archive = await archiveOf(interrupted, text)
      for (const given of [KEY, []]) {
        const { code, stdout } = await runAuditCommand(['verify-archive', archive, ...given])
        expect([code, stdout]).toEqual([1, expect.stringContaining(reason)])
      }
    })
  })

  it.skipIf(process.platform === 'win32')('refuses a FIFO among the archives, and does not wait for it', async () => {
    const archive = await archiveOf(parts[0] ?? '')
    const fifo = join(archive, 'b.ndjson')
    execFileSync('mkfifo', [fifo])
    const { code, stderr } = await runAuditCommand(['verify-archive', archive, ...KEY])
    expect([code, stderr]).toEqual([3, `eaas-audit: ${fifo} is not an archive: it is not a regular file\n`])
  })

  it('finds one that is missing, altered, or the first', async () => {
    const gap = await archiveOf(parts[0] ?? '', parts[2] ?? '')
    expect(await runAuditCommand(['verify-archive', gap, ...KEY])).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('entry 101 is missing'),
    })
    const altered = await archiveOf(parts[0] ?? '', (parts[1] ?? '').replace('192.0.2.9', '192.0.2.8'))
    expect(await runAuditCommand(['verify-archive', altered, ...KEY])).toMatchObject({ code: 1 })
    const late = await archiveOf(parts[1] ?? '')
    expect(await runAuditCommand(['verify-archive', late, ...KEY])).toMatchObject({
      code: 4,
      stdout: expect.stringContaining('PART: nothing through entry 100'),
    })
  })

  it('names a file without a readable first line as not valid, and verifies the others', async () => {
    const archive = await archiveOf(parts[0] ?? '', (parts[1] ?? '').replace(TENANT, OTHER_TENANT).replace('{', '['))
    const { code, stdout } = await runAuditCommand(['verify-archive', archive, ...KEY])
    expect(code).toBe(1)
    expect(stdout).toMatch(new RegExp(`${TENANT}-through-8.ndjson: the line is not JSON`))
    expect(stdout).toMatch(new RegExp(`${TENANT}  1 +1 to 100 .* valid\n`))
    const json = await runAuditCommand(['verify-archive', archive, ...KEY, '--json'])
    expect(
      json.stdout
        .split('\n')
        .filter(Boolean)
        .map((line) => JSON.parse(line).valid),
    ).toEqual([false, true])
  })

  it('says of what is no archive that it is none', async () => {
    const empty = await archiveOf()
    expect(await runAuditCommand(['verify-archive', empty])).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('has no archive'),
    })
    expect(await runAuditCommand(['verify-archive', files[0] ?? ''])).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('ENOTDIR'),
    })
  })
})

describe('checkpoints in several files', () => {
  it('count as if they stood in one: the newest is compared', async () => {
    const kept = (id: number, hash: Uint8Array, created_at: string) =>
      signCheckpoint(signingKey, { tenant_id: TENANT, last_id: id, hash, created_at })
    const { hash } = JSON.parse((parts[1] ?? '').split('\n')[1] ?? '') // of entry 101
    const [older, newer, wrong] = ['older', 'newer', 'wrong'].map((name) => join(folder, name))
    await writeFile(older ?? '', kept(101, decodeHex(hash), '2026-02-01T00:00:00.000Z'))
    await writeFile(newer ?? '', JSON.stringify({ checkpoint: kept(101, decodeHex(hash), '2026-03-01T00:00:00.000Z') }))
    await writeFile(wrong ?? '', kept(101, new Uint8Array(32), '2026-04-01T00:00:00.000Z'))
    const verify = async (...names: (string | undefined)[]) => {
      const given = names.flatMap((name) => ['--checkpoint', name ?? ''])
      return runAuditCommand(['verify', ...files, ...KEY, ...given, '--json'])
    }
    const { code, stdout } = await verify(older, newer)
    expect([code, JSON.parse(stdout).checkpoint.signed_at]).toEqual([0, '2026-03-01T00:00:00.000Z'])
    expect(await verify(newer, older)).toMatchObject({ code: 0 })
    expect(await verify(older, wrong)).toMatchObject({ code: 1 })
  })

  it.each(['a note', 'lines of JSON'])(
    'count as they were written, where a program changed how lines end: %s',
    async (form) => {
      const { hash } = JSON.parse((parts[1] ?? '').split('\n')[1] ?? '')
      const end = { tenant_id: TENANT, last_id: 101, hash: decodeHex(hash), created_at: SIGNED_AT }
      const note = signCheckpoint(signingKey, end)
      const text = form === 'a note' ? note : `${JSON.stringify({ checkpoint: note })}\n`
      const changed = join(folder, 'changed')
      for (const other of [text.replaceAll('\n', '\r\n'), `\ufeff${text}`, `\ufeff${text.replaceAll('\n', '\r\n')}`]) {
        await writeFile(changed, other)
        const { code, stdout } = await runAuditCommand(['verify', ...files, ...KEY, '--checkpoint', changed])
        expect([code, stdout]).toEqual([0, expect.stringContaining('checkpoint  agrees: entry 101')])
      }
    },
  )
})
