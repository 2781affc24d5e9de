// Proofs of entries, see proof.md: the files of another program, what we write, and what no reader may take.
import { execFile } from 'node:child_process'
import { createSecretKey } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { decodeHex, encodeHex } from '@eaas/protocol'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { findObstacleToVerifier } from '../../../../test/audit/verify/other-verifier.js'
import { ERASED, reportedLog, SIGNED_AT } from '../../../../test/support/audit/reported-log.js'
import { publicKey as ownKey, TENANT, writeExport } from '../../../../test/support/audit/written-export.js'
import { PYTHON } from '../../../../test/support/vectors/python.js'
import { signingKeyOf } from '../node/signing-key.js'
import { type ProveOptions, proveEntries } from '../verify/prove-entries.js'
import { verifyProof } from '../verify/verify-proof.js'
import { merkleRoot, RunningRoot } from './merkle.js'
import { readEntryTree, signEntryTree, writeProof } from './proof.js'
import vectors from './proof.vectors.json' with { type: 'json' }

const VERIFIER = fileURLToPath(new URL('../../../../test/independent/verify_proof.py', import.meta.url))
const VECTORS = fileURLToPath(new URL('proof.vectors.json', import.meta.url))
const keyOf = (seed: string) => signingKeyOf(createSecretKey(decodeHex(seed)))
const lines = [...writeExport(reportedLog(), SIGNED_AT)].map((line) => line.slice(0, -1))

interface Row {
  file: string
  public_key?: string
  checkpoint?: string
}

function judge({ file, public_key = vectors.public_key, checkpoint }: Row) {
  return verifyProof(file, {
    publicKey: public_key,
    ...(checkpoint === undefined ? {} : { checkpoints: [checkpoint] }),
  })
}

describe('the published statements', () => {
  it.each(vectors.statements)(
    'are what the key signs, to the byte: $name',
    ({ seed, public_key, hashes, statement, note }) => {
      const root = merkleRoot(hashes.map(decodeHex))
      expect(encodeHex(root)).toBe(statement.root)
      expect(signEntryTree(keyOf(seed), { ...statement, root })).toBe(note)
      const { root: read, ...rest } = readEntryTree(note, public_key)
      expect({ ...rest, root: encodeHex(read) }).toEqual(statement)
    },
  )
})

it('no statement is about no entry, whoever signed it', () => {
  const [{ seed = '', public_key = '' } = {}] = vectors.statements
  const tree = { tenant_id: TENANT, root: new Uint8Array(32), created_at: SIGNED_AT }
  for (const after_id of [6, 7]) {
    const note = signEntryTree(keyOf(seed), { ...tree, after_id, last_id: 6 })
    expect(() => readEntryTree(note, public_key)).toThrow('no statement about the entries')
  }
})

describe('the published proofs', () => {
  it.each(vectors.valid)('verify: $name', (row) => {
    const { ids, ...verdict } = row.verdict
    const found = judge(row as Row)
    expect(found).toMatchObject({ valid: true, ...verdict })
    expect(found.entries.map(({ id }) => id)).toEqual(ids)
    expect(found).not.toHaveProperty('reason')
  })

  it.each(vectors.refuse)('are not this file: $name', (row) => {
    expect(judge(row as Row)).toMatchObject({ valid: false, entries: [], reason: expect.any(String) })
  })

  it.skipIf(findObstacleToVerifier() !== undefined)('are judged alike by a program in another language', async () => {
    const { stdout } = await promisify(execFile)(PYTHON, ['-B', VERIFIER, '--vectors', VECTORS], { maxBuffer: 2 ** 26 })
    const judged = JSON.parse(stdout) as { kind: string; name: string; verdict: { valid: boolean; ids?: number[] } }[]
    expect(judged.length).toBe(vectors.valid.length + vectors.refuse.length)
    expect(judged.filter(({ kind, verdict }) => verdict.valid !== (kind === 'valid'))).toEqual([])
  })
})

describe('a proof that we make', () => {
  const prove = async (options: ProveOptions) => {
    const { proof, ...rest } = await proveEntries(lines, { publicKey: ownKey, ...options })
    return { ...rest, file: proof ? writeProof(proof) : '' }
  }
  const erasure = lines.flatMap((line, at) => (line.includes(ERASED) ? [at] : []))

  it('shows an erasure, and nothing else of the log but hashes', async () => {
    const { file } = await prove({ ids: erasure })
    const verdict = verifyProof(file, { publicKey: ownKey })
    expect(verdict).toMatchObject({ valid: true, trusted_key: true })
    expect(verdict.entries.map(({ id, action }) => [id, action])).toEqual([
      [erasure[0], 'key.create'],
      [erasure[1], 'key.disable'],
      [erasure[2], 'key.destroy'],
      [erasure[3], 'key.destroy'],
    ])
    expect(file).not.toMatch(/on_behalf_of|ada@example|192\.0\.2|key\.unwrap|api_key\.create/)
    const others = lines.slice(1, -1).flatMap((line, at) => (erasure.includes(at + 1) ? [] : [JSON.parse(line).hash]))
    // Of the others: what stands before a proven entry, and the last entry.
    const shown = others.filter((hash) => file.includes(hash))
    expect(shown.length).toBeLessThanOrEqual(erasure.length + 1)
  })

  it('verifies for any entries, by another program too', async () => {
    const ids = [1, 2, 3, 511, 512, 513, lines.length - 2]
    const { file, missing } = await prove({ ids, links: [7] })
    expect(missing).toEqual([])
    expect(verifyProof(file, { publicKey: ownKey }).entries.map(({ id }) => id)).toEqual(ids)
    expect(JSON.parse(file).links.map(({ id }: { id: number }) => id)).toEqual([7, lines.length - 2])
    for (const id of [1, 512, lines.length - 2]) {
      expect(verifyProof((await prove({ ids: [id] })).file, { publicKey: ownKey }).valid).toBe(true)
    }
  })

  it('is refused with any byte altered', async () => {
    const { file } = await prove({ ids: [erasure[3] ?? 0] })
    const bytes = Buffer.from(file)
    const taken: number[] = []
    for (let at = 0; at < bytes.length; at++) {
      const altered = Buffer.from(bytes)
      altered[at] = (bytes[at] ?? 0) ^ (1 << (at % 7))
      if (verifyProof(altered.toString(), { publicKey: ownKey }).valid) taken.push(at)
    }
    expect(taken).toEqual([])
  })

  it('is not made of an entry that the export lacks, nor of an export that does not verify or has no tree', async () => {
    expect(await prove({ ids: [1, lines.length] })).toMatchObject({ file: '', missing: [lines.length] })
    const altered = lines.map((line) => line.replace('192.0.2.9', '192.0.2.8'))
    expect(await proveEntries(altered, { ids: [1], publicKey: ownKey })).not.toHaveProperty('proof')
    const [last = ''] = lines.slice(-1)
    const { tree: _, ...trailer } = JSON.parse(last)
    const without = [...lines.slice(0, -1), JSON.stringify(trailer)]
    const { verdict, proof } = await proveEntries(without, { ids: [1], publicKey: ownKey })
    expect([verdict.valid, proof]).toEqual([true, undefined])
  })
})

describe('a root that runs along', () => {
  it('is that of all leaves so far', () => {
    fc.assert(
      fc.property(fc.array(fc.uint8Array({ maxLength: 40 }), { maxLength: 70 }), (leaves) => {
        const running = new RunningRoot()
        for (const leaf of leaves) running.add(leaf)
        expect(running.length).toBe(leaves.length)
        expect(running.root()).toEqual(merkleRoot(leaves))
      }),
    )
  })
})
