// `eaas-audit prove` and `eaas-audit verify-proof` as the two sides of an erasure run them.
import { createSecretKey, randomUUID } from 'node:crypto'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { decodeHex } from '@eaas/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ERASED, reportedLog, SIGNED_AT } from '../../../../test/support/audit/reported-log.js'
import { cutExport, publicKey, signingKey, TENANT, writeExport } from '../../../../test/support/audit/written-export.js'
import { runAuditCommand } from '../../../../test/support/service/command-host.js'
import { encodePublicKey, signCheckpoint } from '../formats/checkpoint.js'
import { headerLine, trailerLine } from '../formats/export.js'
import { signKeyChange } from '../formats/key-change.js'
import { readEntryTree, signEntryTree } from '../formats/proof.js'
import { readStretch, signStretch } from '../formats/stretch.js'
import { signingKeyOf } from '../node/signing-key.js'
import { readHeader } from '../verify/read-export.js'

const KEY = ['--public-key', publicKey]
let folder: string
let file: string
let text: string
/** the ids of the entries that destroyed a key */
let erasure: string[]
let number = 0

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-prove-'))
  file = join(folder, 'acme.ndjson')
  text = [...writeExport(reportedLog(), SIGNED_AT)].join('')
  await writeFile(file, text)
  erasure = text
    .split('\n')
    .flatMap((line, at) => (line.includes(ERASED) && line.includes('key.destroy') ? [String(at)] : []))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const fresh = (name: string) => join(folder, `${++number}-${name}`)

function checkpointOf(id: number): string {
  const { hash } = JSON.parse(text.split('\n')[id] ?? '')
  return signCheckpoint(signingKey, { tenant_id: TENANT, last_id: id, hash: decodeHex(hash), created_at: SIGNED_AT })
}

describe('eaas-audit prove', () => {
  it("compares with no other tenant's checkpoint, and does not call the files false for it", async () => {
    const [proof, kept] = [fresh('erasure.proof'), fresh('kept')]
    const end = { last_id: 7, hash: decodeHex('07'.repeat(32)), created_at: SIGNED_AT }
    await writeFile(kept, signCheckpoint(signingKey, { tenant_id: randomUUID(), ...end }))
    expect(await runAuditCommand(['prove', file, ...erasure, ...KEY, '--out', proof])).toMatchObject({ code: 0 })
    for (const args of [
      ['verify', file],
      ['verify-proof', proof],
    ]) {
      const { code, stdout, stderr } = await runAuditCommand([...args, ...KEY, '--checkpoint', kept])
      expect([code, stdout]).toEqual([3, ''])
      expect(stderr).toContain('no checkpoint of this tenant, but checkpoints of tenant')
    }
  })

  it('writes what verify-proof accepts, by the key and the checkpoint of whoever is given it', async () => {
    const [proof, kept] = [fresh('erasure.proof'), fresh('kept')]
    await writeFile(kept, checkpointOf(400))
    const made = await runAuditCommand(['prove', file, ...erasure, ...KEY, '--checkpoint', kept, '--out', proof])
    expect(made).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(`Wrote ${proof}: 2 of the entries 1 to 876`),
    })
    const judged = await runAuditCommand(['verify-proof', proof, ...KEY, '--checkpoint', kept])
    expect(judged).toMatchObject({ code: 0, stderr: '' })
    expect(judged.stdout).toMatch(/^The proof is valid/)
    expect(judged.stdout).toContain(`key         ${ERASED}, version 1`)
    expect(judged.stdout).toContain('checkpoint  agrees: entry 400 of the log')
    const { code, stdout } = await runAuditCommand(['verify-proof', proof, '--json'])
    expect(code).toBe(6)
    expect(JSON.parse(stdout).entries.map(({ id }: { id: number }) => String(id))).toEqual(erasure)
  })

  it('compares all checkpoints of a file with a proof, and names the newest that it could compare', async () => {
    const [proof, kept] = [fresh('proof'), fresh('checkpoints')]
    await writeFile(kept, checkpointOf(400))
    await runAuditCommand(['prove', file, ...erasure, ...KEY, '--checkpoint', kept, '--out', proof])
    const verifyWith = async (...notes: string[]) => {
      await writeFile(kept, notes.join(''))
      return runAuditCommand(['verify-proof', proof, ...KEY, '--checkpoint', kept])
    }
    const known = checkpointOf(400)
    expect(await verifyWith(checkpointOf(401), known)).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('checkpoint  agrees: entry 400 of the log'),
    })
    const other = signCheckpoint(signingKey, {
      tenant_id: TENANT,
      last_id: 400,
      hash: new Uint8Array(32),
      created_at: '2026-01-01T00:00:00.000Z',
    })
    expect(await verifyWith(known, other)).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('entry 400 is not the one of the checkpoint: the log was rewritten'),
    })
  })

  it('ends verify-proof with 5 for a checkpoint of an entry that the file does not have, and with 1 for another log', async () => {
    const [proof, kept, other] = [fresh('erasure.proof'), fresh('kept'), fresh('other')]
    await runAuditCommand(['prove', file, ...erasure, ...KEY, '--out', proof])
    await writeFile(kept, checkpointOf(401))
    expect(await runAuditCommand(['verify-proof', proof, ...KEY, '--checkpoint', kept])).toMatchObject({ code: 5 })
    const wrong = { tenant_id: TENANT, last_id: 876, hash: new Uint8Array(32), created_at: SIGNED_AT }
    await writeFile(other, signCheckpoint(signingKey, wrong))
    const judged = await runAuditCommand(['verify-proof', proof, ...KEY, '--checkpoint', other])
    expect(judged).toMatchObject({ code: 1, stdout: expect.stringContaining('NOT valid: entry 876 is not the one') })
  })

  it('ends verify-proof with 1 for a file that was altered', async () => {
    const [proof, altered] = [fresh('erasure.proof'), fresh('altered.proof')]
    await runAuditCommand(['prove', file, ...erasure, ...KEY, '--out', proof])
    await writeFile(altered, (await readFile(proof, 'utf8')).replace('completed', 'cancelled'))
    expect(await runAuditCommand(['verify-proof', altered, ...KEY])).toMatchObject({ code: 1 })
  })

  it('proves entries of several exports by the one that has them, once all verify as one', async () => {
    const lines = [...writeExport(reportedLog(), SIGNED_AT)]
    const parts = cutExport(lines, [300, 600], SIGNED_AT)
    const files = await Promise.all(
      parts.map(async (part) => {
        const path = fresh('part.ndjson')
        await writeFile(path, part)
        return path
      }),
    )
    for (const [ids, range] of [
      [['1', '300'], '1 to 300'],
      [['301'], '301 to 600'],
      [['601', '876'], '601 to 876'],
    ] as const) {
      const proof = fresh('part.proof')
      expect(await runAuditCommand(['prove', ...files, ...ids, ...KEY, '--out', proof])).toMatchObject({
        code: 0,
        stdout: expect.stringContaining(`of the entries ${range}`),
      })
      expect(await runAuditCommand(['verify-proof', proof, ...KEY])).toMatchObject({ code: 0 })
    }
    const prove = (...args: string[]) => runAuditCommand(['prove', ...args, ...KEY, '--out', fresh('out')])
    const [first = '', second = '', third = ''] = files
    expect(await prove(...files, '300', '301')).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('no export has all of these entries'),
    })
    expect(await prove(...files, '877')).toMatchObject({ code: 3, stderr: expect.stringContaining('no entry 877') })
    expect(await prove(second, third, '300')).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('no entry 300'),
    })
    expect(await prove(first, third, '1')).toMatchObject({
      code: 1,
      stdout: expect.stringContaining('NOT valid, so it proves nothing: entry 301 is missing'),
    })
    expect(await prove(first, '-', '1')).toMatchObject({ code: 2 })
  })

  it('proves entries of an archive that a key signed which was replaced since', async () => {
    const before = signingKeyOf(createSecretKey(Buffer.alloc(32, 8)))
    const former = encodePublicKey(before)
    const [first = '', second = ''] = cutExport([...writeExport(reportedLog(), SIGNED_AT)], [467], SIGNED_AT)
    const { stretch, tree } = JSON.parse(first.split('\n').at(-2) ?? '')
    const trailer = trailerLine({
      stretch: signStretch(before, readStretch(stretch, publicKey)),
      public_key: former,
      tree: signEntryTree(before, readEntryTree(tree, publicKey)),
    })
    const header = readHeader(second.split('\n')[0] ?? '')
    const change = signKeyChange(before, signingKey, SIGNED_AT)
    const [archive, today, proof] = [fresh('archive.ndjson'), fresh('today.ndjson'), fresh('former.proof')]
    await writeFile(
      archive,
      first.replace(/\{"stretch".*\n$/, () => trailer),
    )
    await writeFile(
      today,
      second.replace(/^.*\n/, () => headerLine({ ...header, key_changes: [change] })),
    )
    expect(await runAuditCommand(['prove', archive, today, '17', ...KEY, '--out', proof])).toMatchObject({
      code: 0,
      stdout: expect.stringContaining(`whoever verifies the proof gives that one, ${former}.`),
    })
    expect(await runAuditCommand(['verify-proof', proof, '--public-key', former])).toMatchObject({ code: 0 })
    expect(await runAuditCommand(['verify-proof', proof, ...KEY])).toMatchObject({ code: 1 })
  })

  it('writes nothing from an export that does not verify, that has no such entry or no signed tree', async () => {
    const [altered, bare, out] = [fresh('altered.ndjson'), fresh('bare.ndjson'), fresh('out')]
    await writeFile(altered, text.replace('192.0.2.9', '192.0.2.8'))
    expect(await runAuditCommand(['prove', altered, '1', ...KEY, '--out', out])).toMatchObject({ code: 1 })
    expect(await runAuditCommand(['prove', file, '1', '877', ...KEY, '--out', out])).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('has no entry 877'),
    })
    await writeFile(bare, text.replace(/,"tree":"[^"]*"}\n$/, '}\n'))
    expect(await runAuditCommand(['prove', bare, '1', ...KEY, '--out', out])).toMatchObject({
      code: 3,
      stderr: expect.stringContaining('no signed tree'),
    })
    await expect(readFile(out)).rejects.toThrow('ENOENT')
  })

  it.each([['0'], ['-1'], ['1.5'], ['9007199254740992'], []])(
    'has a usage error without the id of an entry, as for %s',
    async (...ids) => {
      expect(await runAuditCommand(['prove', file, '--out', fresh('out'), '--', ...ids])).toMatchObject({ code: 2 })
    },
  )
})
