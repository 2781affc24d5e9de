// Who may say what names the tree of an export's installation: the key that signs the export's end, and nobody else.
import { createSecretKey } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findObstacleToVerifier, runOtherVerifier } from '../../../../test/audit/verify/other-verifier.js'
import {
  at,
  chain,
  changesOf,
  cosignedLine,
  exportOf,
  installationNote,
  installationOf,
  noteOf,
  WITNESS,
} from '../../../../test/support/audit/anchored-export.js'
import { TENANT } from '../../../../test/support/audit/written-export.js'
import { runAuditCommand } from '../../../../test/support/service/command-host.js'
import { sha256 } from '../crypto.js'
import { encodePublicKey } from '../formats/checkpoint.js'
import { signInstallation } from '../formats/key-change.js'
import { readTreeKey } from '../formats/tree.js'
import { signingKeyOf } from '../node/signing-key.js'

const keyOf = (byte: number) => signingKeyOf(createSecretKey(Buffer.alloc(32, byte)))
/** The installation's keys, the leaked one and the one since; and another installation's, which the same witness sees. */
const [leaked, current, other] = [keyOf(21), keyOf(22), keyOf(23)]
const OTHER = new Uint8Array(32).fill(9)
const BY_WITNESS = ['--witness', WITNESS]
const nameOf = (key: typeof leaked) => readTreeKey(encodePublicKey(key)).name

const days = (...on: number[]) => on.map((on) => ({ on }))
const log = chain(TENANT, days(1, 2, 3, 4, 5))
const installation = installationOf([{ on: 1 }, { on: 3, covers: at(log, 3) }, { on: 6, covers: at(log, 5) }])
/** A log of the other installation that ends with the anchor of this one. */
const elsewhere = [...installationOf(days(1, 2)), at(installation, 3)]
const honest = {
  key: current,
  key_changes: changesOf(leaked, current),
  installation: installationNote(leaked, current),
}
const unlinked = { installation, anchor: 3, linked: 'none' } as const
const linesOf = (...notes: string[]) => notes.map((checkpoint) => `${JSON.stringify({ checkpoint })}\n`).join('')

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-keys-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

/** Verifies an export by the current key, by both programs, which must end with one code. */
async function verified(exported: string, kept?: string, more: readonly string[] = []) {
  const [file, notes] = [join(folder, 'log'), join(folder, 'kept')]
  await writeFile(file, exported)
  await writeFile(notes, kept ?? '')
  const args = [file, '--public-key', encodePublicKey(current), ...(kept ? ['--checkpoint', notes] : []), ...more]
  const { code, stdout, stderr } = await runAuditCommand(['verify', ...args])
  if (!findObstacleToVerifier()) expect([stdout, (await runOtherVerifier(args)).status]).toEqual([stdout, code])
  return { code, text: stdout + stderr }
}
const by = (changes: object) => exportOf(log, 9, unlinked, 0, { ...honest, ...changes })

describe('the name of the tree', () => {
  it('stays when the key was replaced', async () => {
    const exported = exportOf(log, 9, { installation, anchor: 3, linked: [2], first: leaked }, 0, honest)
    const seen = cosignedLine(installation.slice(0, 2), 4, [leaked])
    expect(await verified(exported, seen + linesOf(noteOf(at(log, 2), 3, leaked)), BY_WITNESS)).toMatchObject({
      code: 0,
    })
  })

  it('is not what a thief of an earlier key says in the header', async () => {
    const seen = cosignedLine(elsewhere, 8, [other, leaked])
    expect(await verified(by({ key_changes: changesOf(other, leaked, current) }), seen, BY_WITNESS)).toMatchObject({
      code: 3,
    })
  })

  it('is what the holder of the current key says, unless it is pinned', async () => {
    const seen = cosignedLine(elsewhere, 8, [other])
    const exported = by({ key_changes: changesOf(other, current), installation: installationNote(other, current) })
    expect(await verified(exported, seen, BY_WITNESS)).toMatchObject({
      code: 0,
      text: expect.stringContaining('give it with --tree'),
    })
    const pinned = await verified(exported, seen, [...BY_WITNESS, '--tree', nameOf(leaked)])
    expect(pinned).toMatchObject({ code: 1, text: expect.stringContaining(nameOf(other)) })
  })
})

describe('a checkpoint of the installation by an earlier key', () => {
  const contradicting = noteOf({ ...at(installation, 2), hash: OTHER }, 4, leaked)
  const agreeing = noteOf(at(installation, 3), 8, current)

  it('contradicts the export', async () => {
    const exported = exportOf(log, 9, { installation, anchor: 3, linked: [2], first: leaked }, 0, honest)
    expect(await verified(exported, linesOf(contradicting, agreeing))).toMatchObject({ code: 1 })
  })

  it.each<[string, object, number]>([
    ['the links are taken away', {}, 5],
    ['the links and the changes of the key are', { key_changes: [] }, 5],
    ['the keys of the installation are too', { key_changes: [], installation: undefined }, 1],
    ['the current key disowns it', { key_changes: [], installation: installationNote(current) }, 5],
  ])('does not become agreement beside a newer one when %s', async (_, changes, code) => {
    expect(await verified(by(changes), linesOf(contradicting, agreeing))).toMatchObject({ code })
  })
})

describe('the keys of the installation', () => {
  const keys = [leaked, current].map(encodePublicKey)
  const many = Array.from({ length: 9_999 }, (_, at) =>
    encodePublicKey({ ...leaked, publicKey: sha256(Uint8Array.of(at >> 8, at)) }),
  )
  it.each<[string, string | undefined]>([
    ['missing', undefined],
    ['of another installation', installationNote(other)],
    ['signed by the earlier key', installationNote(leaked)],
    ['in another order', signInstallation(current, keys.toReversed())],
    ['cut at the end', signInstallation(current, keys.slice(0, 1))],
    ['with a key twice', signInstallation(current, [keys[0] ?? '', ...keys])],
    ['with a key after the signer', signInstallation(current, [...keys, encodePublicKey(other)])],
    ['with a key that is malformed', signInstallation(current, ['eaas-audit+x', ...keys])],
    ['with 10,001 keys', signInstallation(current, [...many, ...keys])],
    ['with a line edited', installationNote(leaked, current).replace(keys[0] ?? '', encodePublicKey(other))],
    ['with a line less, its signature kept', installationNote(leaked, current).replace(`${keys[0]}\n`, '')],
  ])('are refused %s', async (_, note) => {
    const exported = by({ installation: note })
    const agreeing = linesOf(noteOf(at(log, 4), 5, current))
    for (const kept of [undefined, agreeing, linesOf(noteOf(at(log, 4), 5, leaked))])
      expect(await verified(exported, kept)).toMatchObject({ code: 1 })
    const seen = cosignedLine(installation.slice(0, 2), 4, [leaked])
    expect([1, 3]).toContain((await verified(exported, seen, BY_WITNESS)).code)
  })

  it('count only if the signer may state them: no checkpoint is tried by 10,000 others', async () => {
    const stated = signInstallation(other, [...many, encodePublicKey(other)])
    const kept = Array.from({ length: 400 }, (_, id) => noteOf({ ...at(installation, 2), id: id + 1 }, 5, current))
    expect(await verified(by({ installation: stated }), linesOf(...kept))).toMatchObject({ code: 1 })
  })
})

describe('several exports of one log', () => {
  const upTo = (last: number, key: typeof leaked, key_changes: string[], installation: string) =>
    exportOf(log.slice(0, last), last, undefined, 0, { key, key_changes, installation })
  /** The code for these exports, of more and more entries, by the last one's key. */
  async function joined(...exports: string[]): Promise<number> {
    const paths = exports.map((_, at) => join(folder, `${at}.ndjson`))
    for (const [at, text] of exports.entries()) await writeFile(paths[at] ?? '', text)
    return (await runAuditCommand(['verify', ...paths, '--public-key', encodePublicKey(current)])).code ?? -1
  }
  const [replaced, moved] = [changesOf(leaked, current), changesOf(leaked, other, current)]
  const byLeaked = (...keys: [typeof leaked, ...(typeof leaked)[]]) => upTo(2, leaked, [], installationNote(...keys))

  it.each<[string, string[]]>([
    ['the same', [by({}), by({})]],
    ['further ones', [byLeaked(leaked), by({})]],
    [
      'those of an installation that the tenant left',
      [
        byLeaked(leaked),
        upTo(3, other, moved.slice(0, 1), installationNote(other)),
        upTo(4, current, moved, installationNote(leaked, current)),
      ],
    ],
  ])('may state of an installation’s keys %s', async (_, exports) => {
    expect(await joined(...exports)).toBe(0)
  })

  it.each<[string, string[]]>([
    ['others in front', [upTo(2, current, replaced, installationNote(other, current)), by({})]],
    ['one less in front', [upTo(2, current, replaced, installationNote(current)), by({})]],
    ['one more', [upTo(2, current, replaced, installationNote(leaked, other, current)), by({})]],
    ['others before an earlier one', [byLeaked(other, leaked), by({})]],
    [
      'others, with another installation in between',
      [
        byLeaked(leaked),
        upTo(3, other, moved.slice(0, 1), installationNote(other)),
        upTo(4, current, moved, installationNote(other, leaked, current)),
      ],
    ],
    ['those of another signer', [upTo(2, current, replaced, installationNote(leaked)), by({})]],
    ['none that is well-formed', [upTo(2, current, replaced, `${honest.installation}x`), by({})]],
    ['none beside its anchor', [by({ installation: undefined }), by({})]],
    ['the signer’s, and a later key of the log', [upTo(2, leaked, replaced, installationNote(leaked)), by({})]],
  ])('are refused if an earlier one states %s', async (_, exports) => {
    expect(await joined(...exports)).toBe(1)
  })
})

describe('a kept statement about a key', () => {
  const [later] = changesOf(other, leaked)
  const kept = (key: typeof leaked) =>
    `${JSON.stringify({ checkpoint: noteOf(at(log, 3), 3, key), key_change: later })}\n`

  it('is an alarm beside another successor in the export', async () => {
    const [stolen] = changesOf(leaked, other)
    const line = JSON.stringify({ checkpoint: noteOf(at(log, 3), 3, leaked), key_change: stolen })
    for (const changes of [{}, { installation: undefined }, { key_changes: [] }])
      expect(await verified(exportOf(log, 9, undefined, 0, { ...honest, ...changes }), `${line}\n`)).toMatchObject({
        code: 3,
      })
  })

  it('may be of the installation from which the tenant moved, which went on with its key', async () => {
    const arrived = { key_changes: changesOf(other, current), installation: installationNote(current) }
    expect(await verified(by(arrived), kept(other))).toMatchObject({ code: 0 })
  })
})
