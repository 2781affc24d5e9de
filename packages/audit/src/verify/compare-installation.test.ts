// Checkpoints of a tenant's log and of the installation's, all of which must agree with an export, in whatever files and order they are given.
import { createSecretKey } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findObstacleToVerifier, runOtherVerifier } from '../../../../test/audit/verify/other-verifier.js'
import {
  at,
  chain,
  cosignedLine,
  day,
  exportOf,
  installationOf,
  noteOf,
  WITNESS,
} from '../../../../test/support/audit/anchored-export.js'
import { publicKey, TENANT } from '../../../../test/support/audit/written-export.js'
import { runAuditCommand } from '../../../../test/support/service/command-host.js'
import { signingKeyOf } from '../node/signing-key.js'

const days = (...on: number[]) => on.map((on) => ({ on }))
const KEY = ['--public-key', publicKey]
const BY_WITNESS = ['--witness', WITNESS]
const OTHER = new Uint8Array(32).fill(9)
const stranger = signingKeyOf(createSecretKey(Buffer.alloc(32, 8)))
const linesOf = (...notes: string[]) => notes.map((checkpoint) => `${JSON.stringify({ checkpoint })}\n`).join('')

let folder: string
let number = 0
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-compared-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

async function written(text: string, name = 'file'): Promise<string> {
  const path = join(folder, `${++number}-${name}`)
  await writeFile(path, text)
  return path
}

/** Verifies an export by a file of checkpoints, by both programs, which must end with one code. */
async function verified(exported: string, kept: string, more: readonly string[] = []) {
  const args = [await written(exported, 'log'), ...KEY, '--checkpoint', await written(kept, 'kept'), ...more]
  const { code, stdout, stderr } = await runAuditCommand(['verify', ...args])
  if (!findObstacleToVerifier()) expect([stdout, (await runOtherVerifier(args)).status]).toEqual([stdout, code])
  return { code, text: stdout + stderr }
}

// The true logs, of which a witness saw the third and the fifth entry.
const log = chain(TENANT, days(1, 2, 3, 4, 5, 6, 7, 8))
const installation = installationOf([
  { on: 1 },
  { on: 3, covers: at(log, 3) },
  { on: 6, covers: at(log, 5) },
  { on: 10 },
  { on: 12, covers: at(log, 8) },
])
const early = installation.slice(0, 3)
// Both were put back to what they were on day 6, and written on.
const backLog = chain(TENANT, days(14, 15, 16, 17), log.slice(0, 5))
const back = installationOf([{ on: 13 }, { on: 14 }, { on: 15 }, { on: 17, covers: at(backLog, 9) }], early)
const backExport = (linked: number[]) => exportOf(backLog, 19, { installation: back, anchor: 7, linked })

describe('a checkpoint of the installation beside another one', () => {
  it.each([
    ['of the tenant', linesOf(noteOf(at(log, 3), 4))],
    ['of the installation', linesOf(noteOf(at(early, 3), 6))],
  ])('that alone shows a rollback shows it too: %s', async (_, older) => {
    const newer = linesOf(noteOf(at(installation, 5), 12))
    for (const kept of [newer, older + newer, newer + older]) {
      expect(await verified(backExport([3, 5]), kept)).toMatchObject({
        code: 1,
        text: expect.stringContaining(`entry 5 of the installation's log is not that of the checkpoint of ${day(12)}`),
      })
    }
  })

  it.each([
    ['of the tenant', linesOf(noteOf(at(log, 3), 4)), linesOf(noteOf(at(installation, 5), 12)), []],
    ['of the installation', linesOf(noteOf(at(early, 3), 6)), linesOf(noteOf(at(installation, 5), 12)), []],
    ['that a witness cosigned', cosignedLine(early, 6), cosignedLine(installation, 12), BY_WITNESS],
  ])('is unused if it is newer and the export is not linked to it: %s', async (_, older, newer, more) => {
    for (const kept of [newer, older + newer])
      expect(await verified(backExport([3]), kept, more)).toMatchObject({
        code: 5,
        text: expect.stringContaining("UNUSED      the checkpoint is of entry 5 of the installation's log"),
      })
    expect((await verified(backExport([3]), older + newer, more)).text).toContain(
      'checkpoints 1 of 2 could not be compared: the file does not have their entries, nor is linked to them',
    )
  })

  it('is unused if the export has no anchor, though one of the tenant agrees', async () => {
    const newer = noteOf(at(installation, 5), 12)
    for (const kept of [linesOf(newer), linesOf(noteOf(at(log, 3), 4), newer), linesOf(noteOf(at(log, 3), 13), newer)])
      for (const after of [0, 5])
        expect(await verified(exportOf(log, 19, undefined, after), kept)).toMatchObject({ code: 5 })
  })

  it.each([
    ['of a linked entry', noteOf({ ...at(installation, 3), hash: OTHER }, 6, stranger)],
    ['of an entry behind the end', noteOf({ ...at(installation, 5), id: 9 }, 12, stranger)],
  ])('is unused if no key of this installation signed it: %s', async (_, foreign) => {
    const exported = exportOf(log, 19, { installation, anchor: 5, linked: [3] })
    for (const own of [noteOf(at(log, 7), 9), noteOf(at(installation, 5), 13)])
      expect(await verified(exported, linesOf(foreign, own))).toMatchObject({
        code: 5,
        text: expect.stringContaining('none of the keys that the export states signed it'),
      })
  })

  it('is unused if it was signed later, with what to do if the key was replaced since', async () => {
    const exported = exportOf(log, 19, { installation, anchor: 5, linked: [3] })
    for (const own of ['', noteOf(at(log, 7), 9)])
      expect(
        await verified(exported, linesOf(noteOf(at(installation, 5), 20, stranger), ...(own ? [own] : []))),
      ).toMatchObject({
        code: own ? 5 : 3,
        text: expect.stringMatching(
          /If the operator replaced the key .*, have the export made again.*such as one that the tenant left/,
        ),
      })
  })

  it.each([
    ['has no anchor', undefined],
    ['is not linked to', { installation, anchor: 5, linked: [3] }],
  ])('contradicts another one of an entry that the export %s', async (_, anchored) => {
    const entry = at(installation, 4)
    const kept = (key?: typeof stranger) =>
      linesOf(noteOf(at(log, 7), 18), noteOf(entry, 10), noteOf({ ...entry, hash: OTHER }, 11, key))
    expect(await verified(exportOf(log, 19, anchored), kept())).toMatchObject({
      code: 1,
      text: expect.stringMatching(
        /NOT valid: the checkpoints of .* state different hashes of entry 4 of the installation's log: .*give only checkpoints of it from after that/,
      ),
    })
    expect(await verified(exportOf(log, 19, anchored), kept(stranger))).toMatchObject({ code: 5 })
  })

  it('is not used if it is not linked, or was signed after the export, though another one agrees', async () => {
    const exported = exportOf(log, 19, { installation, anchor: 5, linked: [2, 3] })
    const older = [noteOf(at(log, 5), 5), noteOf(at(installation, 2), 7), noteOf(at(early, 3), 6)]
    const agreeing = noteOf(at(installation, 5), 12)
    expect(await verified(exported, linesOf(...older, agreeing))).toMatchObject({
      code: 0,
      text: expect.stringMatching(/^checkpoint {2}agrees: entry 5 of the log.*\n$/m),
    })
    const apart = exportOf(log, 19, { installation, anchor: 5, linked: [3] })
    expect(await verified(apart, linesOf(...older, agreeing))).toMatchObject({
      code: 5,
      text: expect.stringMatching(/^UNUSED .* of entry 2 of the installation.*\ncheckpoints 1 of 4 could not/m),
    })
    const grown = installationOf([{ on: 20 }], installation)
    expect(await verified(exported, linesOf(...older, agreeing, noteOf(at(grown, 6), 20)))).toMatchObject({ code: 5 })
    const cosigned = cosignedLine(installation, 12)
    expect(await verified(exported, cosigned, BY_WITNESS)).toMatchObject({ code: 0 })
    expect(await verified(exported, cosigned + cosignedLine(grown, 20), BY_WITNESS)).toMatchObject({ code: 5 })
  })

  it('says what to leave out if a newer one of that log agrees: an operator may have accepted the rollback', async () => {
    const further = installationOf(days(12, 12, 12), installation)
    for (const lost of [at(installation, 5), at(further, 8)]) {
      const kept = linesOf(noteOf(lost, 12), noteOf(at(back, 7), 18))
      expect(await verified(backExport([3, 5]), kept)).toMatchObject({
        code: 1,
        text: expect.stringContaining('give only checkpoints of it from after that'),
      })
    }
  })
})

it('shows a rollback whichever file is given first', async () => {
  const exported = exportOf(log.slice(0, 5), 19, { installation: early, anchor: 3, linked: [3] })
  const [older, newer] = [await written(cosignedLine(early, 6)), await written(cosignedLine(installation, 12))]
  const file = await written(exported, 'log')
  for (const more of [[], BY_WITNESS])
    for (const files of [
      [older, newer],
      [newer, older],
    ]) {
      const kept = files.flatMap((name) => ['--checkpoint', name])
      expect(await runAuditCommand(['verify', file, ...KEY, ...kept, ...more])).toMatchObject({
        code: 1,
        stdout: expect.stringContaining('by these times, the log was rolled back'),
      })
      if (!findObstacleToVerifier())
        expect(await runOtherVerifier([file, ...KEY, ...kept, ...more])).toMatchObject({
          status: 2,
          stderr: expect.stringContaining('argument --checkpoint: takes one value'),
        })
    }
})

it('never takes the word of the log against its newest checkpoint, though a witness saw an earlier state', async () => {
  const lost = noteOf(at(chain(TENANT, days(11, 12), log), 10), 14)
  const told = { agrees_through: 7, witnessed_id: 12 }
  const after = [{ on: 15, action: 'audit.rollback_accepted', metadata: told }, ...days(16, 17, 18)]
  const lossy = chain(TENANT, after, log.slice(0, 7))
  const since = installationOf([{ on: 15 }, { on: 18, covers: at(lossy, 11) }], early)
  const exported = exportOf(lossy, 19, { installation: since, anchor: 5, linked: [3] })
  const seen = cosignedLine(early, 6)
  for (const more of [[], BY_WITNESS])
    expect(await verified(exported, seen + linesOf(lost), more)).toMatchObject({
      code: 1,
      text: expect.stringContaining('Give a checkpoint from after that too'),
    })
  for (const newer of [linesOf(noteOf(at(lossy, 11), 18)), cosignedLine(since, 18)])
    expect(await verified(exported, seen + linesOf(lost) + newer, BY_WITNESS)).toMatchObject({
      code: 0,
      text: expect.stringContaining('are of entries that the log lost'),
    })
})

describe('a file of checkpoints', () => {
  it.each([
    ['a remark above its note', `kept by Ada\n${noteOf(at(log, 4), 5)}`],
    ['a note that was cut', noteOf(at(log, 4), 5).slice(0, 80)],
    ['nothing', ''],
    ['other JSON', '{"id":1}\n'],
  ])('with %s is named, and not passed over beside another one', async (_, text) => {
    const [unread, read] = [await written(text, 'april'), await written(noteOf(at(log, 7), 9), 'may')]
    const kept = [unread, read].flatMap((name) => ['--checkpoint', name])
    const { code, stdout, stderr } = await runAuditCommand([
      'verify',
      await written(exportOf(log, 19)),
      ...KEY,
      ...kept,
    ])
    expect([code, stdout]).toEqual([3, ''])
    expect(stderr).toContain(`${unread}: this is not a checkpoint of an EaaS audit log`)
    expect(stderr).not.toContain(read)
  })

  it.each([
    ['hash', (note: string) => note.replace(/=\n/, '\n')],
    ['id', (note: string) => note.replace('\n4\n', `\n${2 ** 53}\n`)],
    ['signature', (note: string) => note.replace(/\n$/, '=\n')],
  ])('is read but for a line whose %s was damaged, which does not count', async (_, damage) => {
    const note = noteOf(at(log, 4), 5)
    expect(damage(note)).not.toBe(note)
    const kept = linesOf(damage(note), noteOf(at(log, 2), 3), noteOf(at(log, 7), 9))
    expect((await verified(exportOf(log, 19), kept)).code).toBe(0)
    const args = [await written(exportOf(log, 19)), ...KEY, '--checkpoint', await written(kept)]
    const answers = [(await runAuditCommand(['verify', ...args, '--json'])).stdout]
    if (!findObstacleToVerifier()) answers.push((await runOtherVerifier(args)).stdout)
    for (const answer of answers) expect(JSON.parse(answer).checkpoints).toMatchObject({ given: 2, not_compared: 0 })
  })
})

describe('a file of checkpoints in several forms', () => {
  const older = JSON.stringify({ checkpoint: noteOf(at(log, 4), 5) })
  const newer = noteOf(at(log, 7), 9)

  it.each([
    ['a line and then a note', `${older}\n${newer}`],
    ['a line and then an answer over several lines', `${older}\n${JSON.stringify({ checkpoint: newer }, null, 2)}\n`],
    [
      'answers over several lines',
      [older, JSON.stringify({ checkpoint: newer })]
        .map((text) => `${JSON.stringify(JSON.parse(text), null, 2)}\n`)
        .join(''),
    ],
    ['lines that are indented', `  ${older}\n\t${JSON.stringify({ checkpoint: newer })}\n`],
    ['a line with a separator of lines that is none in JSON', `{"a":"\u2028{"}\n${older}\n${newer}`],
    ['a line that was cut, one of a log shipper, and a note', `${older}\n{"checkpoint":"eaas\nshipped\n${newer}`],
  ])('is compared whole: %s', async (_, kept) => {
    expect((await verified(exportOf(log, 19), kept)).code).toBe(0)
    expect((await verified(exportOf(log.slice(0, 5), 8), kept)).code).toBe(1)
  })

  it.each([
    ['a note and then a line', `${newer}${older}\n`],
    ['a line and then a note without a line feed', `${older}${newer}`],
    ['two answers without a line feed', `${older}\n${older}${JSON.stringify({ checkpoint: newer })}\n`],
    [
      'two answers over several lines without a line feed',
      [older, JSON.stringify({ checkpoint: newer })].map((text) => JSON.stringify(JSON.parse(text), null, 2)).join(''),
    ],
    ['a line and then an export', `${older}\n${exportOf(log, 19)}`],
  ])('is refused as %s', async (_, kept) => {
    expect((await verified(exportOf(log, 19), kept)).code).toBe(3)
  })
})

it('the tree of an export has no signature but the one of its log', async () => {
  const exported = exportOf(log, 19, { installation, anchor: 5, linked: [2] })
  const kept = noteOf(at(installation, 5), 13)
  expect((await verified(exported, kept)).code).toBe(0)
  const more = exported.replace(
    /^\{"tree":"(?:[^"\\]|\\.)*\\n/m,
    `$&\u2014 somebody.example/w1 ${'AAAA'.repeat(18)}\\n`,
  )
  expect(more).not.toBe(exported)
  expect((await verified(more, kept)).code).toBe(1)
})

describe('what a checkpoint of the installation proves against who has the keys of the server', () => {
  const forged = chain(TENANT, days(2, 3, 4, 5, 6, 7, 9), log.slice(0, 1))
  const seen = cosignedLine(early, 6)
  const WORD = 'by the word of the server alone: whoever has its keys can sign another log'

  async function reported(exported: string, kept: string) {
    const [json, ...files] = [join(folder, `${++number}.json`), await written(exported), await written(kept)]
    const [file = '', known = ''] = files
    const period = ['--from', day(1), '--to', day(8)]
    await runAuditCommand(['report', file, ...KEY, '--checkpoint', known, ...BY_WITNESS, ...period, '--json', json])
    return JSON.parse(await readFile(json, 'utf8')).evidence as { verdict: string; not_proven: string[] }
  }

  it('is shown by the tree that a witness cosigned, which a tree of other entries does not continue', async () => {
    const fake = installationOf([{ on: 1 }, { on: 2 }, { on: 3 }, { on: 10, covers: at(forged, 8) }])
    const hashes = { 3: at(early, 3).hash }
    expect(
      await verified(exportOf(forged, 19, { installation: fake, anchor: 4, linked: [3], hashes }), seen, BY_WITNESS),
    ).toMatchObject({
      code: 1,
      text: expect.stringContaining('does not continue the one that witnesses cosigned at entry 3'),
    })
  })

  it('is nothing where the anchor is newer: that both are of one log is the word of the server', async () => {
    const fake = installationOf([{ on: 10, covers: at(forged, 8) }], early)
    const exported = exportOf(forged, 19, { installation: fake, anchor: 4, linked: [3] })
    expect(await verified(exported, seen, BY_WITNESS)).toMatchObject({ code: 0, text: expect.stringContaining(WORD) })
    expect((await verified(exported, seen, BY_WITNESS)).text).not.toContain('nothing')
    const { verdict, not_proven } = await reported(exported, seen)
    expect(verdict).toContain('kept elsewhere, by the word of the server alone.')
    expect(not_proven[0]).toBe(
      "That the log was not rewritten by whoever held the server's keys: these sign that the anchor is of the log of the checkpoint.",
    )
  })

  it.each([
    ['of its own entry', 3, early],
    ['of a later entry, whose tree has the anchor', 3, installation],
  ])('is what the anchor covers, by one that a witness cosigned %s', async (_, anchor, until) => {
    const whole = { installation, anchor, linked: [3, 5], covers: at(log, 5) }
    const exported = exportOf(log, 19, whole)
    const { code, text } = await verified(exported, cosignedLine(until, 12), BY_WITNESS)
    expect([code, text]).toEqual([
      0,
      expect.stringContaining('that log has the anchor up to it, and nothing through entry 5 was rewritten since\n'),
    ])
    const { verdict, not_proven } = await reported(exported, cosignedLine(until, 12))
    expect(verdict).toMatch(/kept elsewhere\.$/)
    expect(not_proven[0]).toContain('after entry 5, which the checkpoint covers that witnesses saw')
  })

  it('is the word of the server for one of a later entry that no witness cosigned', async () => {
    const exported = exportOf(log, 19, { installation, anchor: 3, linked: [5], covers: at(log, 5) })
    expect(await verified(exported, noteOf(at(installation, 5), 12))).toMatchObject({
      code: 0,
      text: expect.stringContaining(WORD),
    })
  })
})

it('says what was not done to the log from the first entry on that the file has', async () => {
  const shown = async (exported: string, kept: string) => (await verified(exported, kept)).text
  const note = noteOf(at(log, 7), 9)
  expect(await shown(exportOf(log, 19), note)).toContain('; nothing before it was rewritten, cut or rolled back\n')
  expect(await shown(exportOf(log, 19, undefined, 5), note)).toContain(
    '; from entry 6 on, nothing before it was rewritten, cut or rolled back\n',
  )
  expect(await shown(exportOf(log, 19, undefined, 7), note)).not.toContain('nothing before it')
})
