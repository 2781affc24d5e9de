// Checkpoints that were kept of one log, all of which must agree with an export, whichever of them its verdict names.
import { createSecretKey } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decodeHex, INSTALLATION_ID } from '@eaas/protocol'
import { describe, expect, it, onTestFinished } from 'vitest'
import {
  cutExport,
  type Draft,
  publicKey,
  signingKey,
  TENANT,
  writeExport,
} from '../../../../test/support/audit/written-export.js'
import { runAuditCommand } from '../../../../test/support/service/command-host.js'
import { type Checkpoint, signCheckpoint } from '../formats/checkpoint.js'
import { cosign, createWitnessKey } from '../formats/cosignature.js'
import { signInstallation } from '../formats/key-change.js'
import { CheckpointError, encodeNoteKey, splitNote } from '../formats/signed-note.js'
import { signTree } from '../formats/tree.js'
import { keepTree } from '../formats/witnessed.js'
import { signingKeyOf } from '../node/signing-key.js'
import { KeptNoteError } from './compare-checkpoints.js'
import { readKept } from './kept-checkpoint.js'
import { splitLines } from './split-lines.js'
import { verifyCompared } from './verify-compared.js'
import { verifyExport } from './verify-export.js'

const day = (number: number) => `2026-01-${String(number).padStart(2, '0')}T00:00:00.000Z`
const SIGNED_AT = day(20)
const OTHER = new Uint8Array(32).fill(9)
const stranger = signingKeyOf(createSecretKey(Buffer.alloc(32, 8)))

/** A log of ten entries, of which some are others than of `usage.doubled`. */
function writeLog(others: Record<number, Pick<Draft, 'action' | 'metadata'>> = {}): string[] {
  const draft = (id: number) => ({ action: 'usage.doubled', created_at: day(id), ...others[id] })
  return [
    ...writeExport(
      Array.from({ length: 10 }, (_, at) => draft(at + 1)),
      SIGNED_AT,
    ),
  ]
}
const log = writeLog()

/** A note of the entry that `lines` have, or of another one; signed on the day after it by default. */
function noteOf(
  last_id: number,
  { lines = log, key = signingKey, ...more }: Partial<Checkpoint> & { lines?: string[]; key?: typeof signingKey } = {},
) {
  const hash = lines.slice(1, -1)[last_id - 1]
  const known = hash === undefined ? OTHER : decodeHex(JSON.parse(hash).hash)
  return signCheckpoint(key, { tenant_id: TENANT, last_id, hash: known, created_at: day(last_id + 1), ...more })
}

const verify = (text: string, notes: readonly string[], witnesses?: readonly string[]) =>
  verifyCompared(splitLines([Buffer.from(text)]), {
    publicKey,
    kept: readKept([{ name: 'kept', text: notes.join('') }]),
    witnesses,
  })
const verdictOf = async (lines: readonly string[], ...notes: string[]) => (await verify(lines.join(''), notes)).verdict
const linesOf = (notes: readonly string[]) => notes.map((checkpoint) => `${JSON.stringify({ checkpoint })}\n`)

describe('an older checkpoint', () => {
  it('that agrees too changes nothing of what the verdict says', async () => {
    const { checkpoints, ...verdict } = await verdictOf(log, noteOf(4), noteOf(8))
    expect(checkpoints).toEqual({ given: 2, not_compared: 0, accepted: 0 })
    expect(verdict).toEqual(await verdictOf(log, noteOf(8)))
  })

  it.each([
    ['in notes', [noteOf(4, { hash: OTHER }), noteOf(8)]],
    ['in lines', linesOf([noteOf(8), noteOf(4, { hash: OTHER })])],
  ])('is contradicted by a rewritten log, though the newest agrees: %s', async (_, kept) => {
    expect(await verdictOf(log, ...kept)).toMatchObject({
      valid: false,
      broken_at: 4,
      line: 12,
      reason: `entry 4 is not the one of the checkpoint of ${day(5)}: the log was rewritten, or rolled back and written on, and no entry of the export accepts that (audit.rollback_accepted)`,
    })
  })

  it('is contradicted by a log that is shorter', async () => {
    const verdict = await verdictOf(log, noteOf(11, { created_at: day(12) }), noteOf(8, { created_at: day(13) }))
    expect(verdict).toMatchObject({
      valid: false,
      broken_at: 11,
      reason: expect.stringContaining('by these times, the log was rolled back'),
    })
  })

  it('is contradicted by the end of a log of which the file has a stretch', async () => {
    const [begun = ''] = cutExport(log, [8], SIGNED_AT)
    expect(await verdictOf([begun], noteOf(10, { hash: OTHER }), noteOf(6, { created_at: day(15) }))).toMatchObject({
      valid: false,
      broken_at: 10,
    })
  })

  it('is not compared where the file does not have its entry, which the verdict counts', async () => {
    const [, end = ''] = cutExport(log, [5], SIGNED_AT)
    expect(await verdictOf([end], noteOf(2), noteOf(3), noteOf(5), noteOf(9))).toMatchObject({
      valid: true,
      checkpoint: { id: 3 },
      checkpoint_compared: false,
      unused: 'missing',
      checkpoints: { given: 4, not_compared: 2, accepted: 0 },
    })
  })

  it('contradicts another one of an entry that the file does not have', async () => {
    const [, end = ''] = cutExport(log, [5], SIGNED_AT)
    const kept = [noteOf(2), noteOf(2, { hash: OTHER, created_at: day(4) }), noteOf(9)]
    const reason = `the checkpoints of ${day(3)} and of ${day(4)} state different hashes of entry 2`
    expect(await verdictOf([end], ...kept)).toMatchObject({
      valid: false,
      broken_at: 2,
      reason: expect.stringContaining(reason),
    })
    const forged = noteOf(2, { hash: OTHER, key: stranger })
    expect(await verdictOf([end], noteOf(2), forged, noteOf(9))).toMatchObject({
      valid: true,
      checkpoints: { not_compared: 2 },
    })
  })

  it('that nobody signed accuses no log, and is not passed over either', async () => {
    const verdict = verdictOf(log, noteOf(4, { hash: OTHER, key: stranger }), noteOf(8))
    await expect(verdict).rejects.toThrow(KeptNoteError)
    await expect(verdict).rejects.toThrow(
      `of ${day(5)} contradicts the export at entry 4, but cannot be trusted: the checkpoint was signed by another key`,
    )
    await expect(verdict).rejects.toThrow(CheckpointError)
  })

  it('is compared beside one of the installation that a witness cosigned', async () => {
    const signer = signingKeyOf(createSecretKey(Buffer.alloc(32, 6)))
    const key = createWitnessKey('witness.example/w1', signer)
    const tree = signTree(signingKey, [OTHER])
    const cosigned = `${tree}${cosign({ key, signingKey: signer }, splitNote(tree).text, 1_800_000_000)}`
    const line = {
      checkpoint: noteOf(1, { tenant_id: INSTALLATION_ID, hash: OTHER }),
      tree: keepTree(cosigned, [OTHER]),
    }
    const stated = `,"installation":${JSON.stringify(signInstallation(signingKey, [publicKey]))}}\n`
    const judge = (own: string) =>
      verify(
        log.join('').replace('}\n', () => stated),
        [`${JSON.stringify(line)}\n`, ...linesOf([own])],
        [encodeNoteKey(key)],
      )
    expect((await judge(noteOf(4))).verdict).toMatchObject({
      valid: true,
      checkpoint: { tenant_id: INSTALLATION_ID },
      checkpoints: { given: 2, not_compared: 1 },
    })
    expect((await judge(noteOf(4, { hash: OTHER }))).verdict).toMatchObject({ valid: false, broken_at: 4 })
    // The file may have grown since the export was made.
    expect((await judge(noteOf(11, { created_at: day(21) }))).verdict).toMatchObject({
      valid: true,
      checkpoint_compared: false,
      checkpoints: { given: 2, not_compared: 2 },
    })
  })
})

describe('a rollback that an operator accepted', () => {
  const lossy = (agrees_through: number, witnessed_id: number) =>
    writeLog({ 6: { action: 'audit.rollback_accepted', metadata: { agrees_through, witnessed_id } } })
  const lost = (id: number, more = {}) => noteOf(id, { hash: OTHER, created_at: day(5), ...more })

  it.each([
    ['the log has another entry', 4],
    ['it is behind the end', 12],
  ])('explains an older checkpoint of a lost entry: %s', async (_, id) => {
    const lines = lossy(3, 12)
    expect(await verdictOf(lines, lost(id), noteOf(8, { lines }))).toMatchObject({
      valid: true,
      checkpoints: { given: 2, not_compared: 0, accepted: 1 },
    })
  })

  it.each([
    ['of an entry that was not lost', lossy(4, 12), {}],
    ['of a later entry than the operator knew', lossy(0, 3), {}],
    ['that was signed since', lossy(3, 12), { created_at: day(7) }],
  ])('explains none %s', async (_, lines, more) => {
    const verdict = await verdictOf(lines, lost(4, more), noteOf(8, { lines }))
    expect(verdict).toMatchObject({ valid: false, broken_at: 4 })
  })

  const given = (through: number) =>
    `; by entry 6, audit.rollback_accepted, an operator accepted at ${day(6)} that entries through ${through} were lost. Give a checkpoint from after that too: if the log agrees with it, this one counts as of a lost entry`
  it.each([
    ['the log has another entry', 4, { line: 5, verified_entries: 4, broken_at: 4 }],
    ['it is behind the end', 12, { line: 12, verified_entries: 10, broken_at: 11 }],
    ['the log has another last entry', 10, { line: 11, verified_entries: 10, broken_at: 10 }],
  ])('does not explain the newest checkpoint, and the reason says which one to give: %s', async (_, id, where) => {
    const { reason, ...verdict } = await verdictOf(lossy(3, 12), noteOf(2), lost(id))
    expect(verdict).toMatchObject({ valid: false, ...where })
    expect(reason?.endsWith(given(12))).toBe(true)
  })

  it.each([
    ['the operator did not accept', lossy(4, 12)],
    ['a file says that does not verify', lossy(3, 12).with(9, log[9] ?? '')],
    ['a file says that was cut', lossy(3, 12).slice(0, -1)],
  ])('is not named as what explains a checkpoint if %s', async (_, lines) => {
    expect(await verdictOf(lines, lost(4))).toMatchObject({
      ...{ valid: false, line: 5, broken_at: 4 },
      reason: 'entry 4 is not the one of the checkpoint: the log was rewritten, or rolled back and written on',
    })
  })

  it('is counted in the verdict, and the text then does not say that nothing was rolled back', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'eaas-rolled-back-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    const told = { agrees_through: 3, witnessed_id: 12 }
    const acceptance = { action: 'audit.rollback_accepted', metadata: told }
    const twice = writeLog({ 6: acceptance, 8: acceptance })
    const printed = async (lines: string[]) => {
      await writeFile(join(folder, 'log'), lines.join(''))
      await writeFile(join(folder, 'kept'), noteOf(9, { lines }))
      const { code, stdout } = await runAuditCommand(
        ['verify', 'log', '--public-key', publicKey, '--checkpoint', 'kept'].map((arg) =>
          ['log', 'kept'].includes(arg) ? join(folder, arg) : arg,
        ),
      )
      expect(code).toBe(0)
      return stdout
    }
    expect((await verdictOf(twice, noteOf(9, { lines: twice }))).accepted_rollbacks).toEqual({
      ...{ entries: 2, newest_id: 8 },
    })
    expect(await printed(twice)).toContain(
      'ROLLED BACK an operator accepted 2 rollbacks, the newest by entry 8: what the log had lost by then is not in it\n',
    )
    expect(await printed(twice)).not.toContain('nothing before it')
    expect(await printed(log)).toMatch(/; nothing before it was rewritten, cut or rolled back\n/)
    expect(await verdictOf(log, noteOf(9))).not.toHaveProperty('accepted_rollbacks')
  })
})

describe('checkpoints of which none is named', () => {
  const judge = (lines: readonly string[], ...checkpoints: string[]) =>
    verifyExport(splitLines([Buffer.from(lines.join(''))]), { publicKey, checkpoints })
  const ofInstallation = noteOf(1, { tenant_id: INSTALLATION_ID, created_at: day(19) })

  it('are compared all, and the verdict names the newest of the log', async () => {
    expect(await judge(log, noteOf(4), noteOf(8))).toMatchObject({
      ...{ valid: true, checkpoint_compared: true, checkpoint: { id: 8 } },
      checkpoints: { given: 2, not_compared: 0 },
    })
    expect(await judge(log, noteOf(4, { hash: OTHER }), noteOf(8))).toMatchObject({ valid: false, broken_at: 4 })
    expect(await judge(log, noteOf(4, { hash: OTHER }))).toMatchObject({ valid: false, broken_at: 4 })
  })

  it.each([[[]], [[noteOf(8)]], [[noteOf(8), 'no note']]])(
    'are named by one that could not be compared: %#',
    async (more) => {
      expect(await judge(log, ...more, ofInstallation)).toMatchObject({
        ...{ valid: true, checkpoint_compared: false, checkpoint: { tenant_id: INSTALLATION_ID } },
      })
      expect(await judge(log, noteOf(8), 'no note')).toMatchObject({ valid: true, checkpoint_compared: false })
    },
  )

  it('refuse an export if none can be read or is of its log', async () => {
    for (const note of ['no note', noteOf(4, { tenant_id: '00000000-0000-4000-8000-000000000001' })])
      expect(await judge(log, note)).toMatchObject({ valid: false, line: 1 })
  })

  it('are nothing if there are none', async () => {
    expect(await judge(log)).toEqual(await verifyExport(splitLines([Buffer.from(log.join(''))]), { publicKey }))
  })
})

it('is told by eaas-audit verify, which was given several files', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'eaas-kept-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const [, end = ''] = cutExport(log, [5], SIGNED_AT)
  const files = {
    whole: log.join(''),
    end,
    january: noteOf(4),
    forged: noteOf(4, { hash: OTHER }),
    february: noteOf(8),
  }
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text)
  const run = (exported: string, january: string) => {
    const kept = [january, 'february'].flatMap((name) => ['--checkpoint', join(folder, name)])
    return runAuditCommand(['verify', join(folder, exported), '--public-key', publicKey, ...kept])
  }
  const agreeing = await run('whole', 'january')
  expect([agreeing.code, agreeing.stdout]).toEqual([0, expect.not.stringContaining('checkpoints')])
  expect(await run('whole', 'forged')).toMatchObject({ code: 1, stdout: expect.stringContaining('NOT valid: entry 4') })
  expect(await run('end', 'january')).toMatchObject({
    code: 5,
    stdout: expect.stringContaining('checkpoints 1 of 2 could not be compared'),
  })
})
