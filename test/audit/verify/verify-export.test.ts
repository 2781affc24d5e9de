// Exports verified offline: by the server's command without environment or database, and by an independent program. Both must agree.
import { execFile, spawnSync } from 'node:child_process'
import { generateKeyPairSync, randomBytes, randomInt } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { encodePublicKey, signCheckpoint } from '../../../packages/audit/src/formats/checkpoint.js'
import { createWitnessKey } from '../../../packages/audit/src/formats/cosignature.js'
import vectors from '../../../packages/audit/src/formats/export.vectors.json' with { type: 'json' }
import { writeProof } from '../../../packages/audit/src/formats/proof.js'
import { encodeNoteKey } from '../../../packages/audit/src/formats/signed-note.js'
import { signerOf } from '../../../packages/audit/src/node/signing-key.js'
import { proveEntries } from '../../../packages/audit/src/verify/prove-entries.js'
import { splitLines } from '../../../packages/audit/src/verify/split-lines.js'
import { verifyExport } from '../../../packages/audit/src/verify/verify-export.js'
import { verifyProof } from '../../../packages/audit/src/verify/verify-proof.js'
import { optionsOf, refusedExport } from '../../support/audit/refused-export.js'
import { runAuditCommand } from '../../support/service/command-host.js'
import { type Caller, type Service, startService } from '../../support/service/service.js'
import { PYTHON } from '../../support/vectors/python.js'
import {
  findObstacleToVerifier,
  runOtherVerifier,
  VERIFIER,
  type VerifierJob,
  verifyByBoth,
  verifyElsewhere,
} from './other-verifier.js'

const EAAS_AUDIT = fileURLToPath(new URL('../../../packages/audit/bin/eaas-audit.mjs', import.meta.url))
/** The long form is ../../slow/verify-export.test.ts. */
const LINES = 62
/** the entry of the note that is kept */
const KEPT = 20

let service: Service
let owner: Caller
let folder: string
/** a real export, its lines with their line feeds, and the key that signed it */
let file: Buffer
let lines: string[]
let publicKey: string
/** a note of entry KEPT */
let kept: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-exports-'))
  service = await startService()
  owner = await service.createTenant({ envelope_only: false })
  const { key_id } = (await owner.call('POST', '/v1/keys', { name: 'Renée 🔐 "\\ \u2028 </script>' })).body
  await owner.call('POST', `/v1/keys/${key_id}/rotate`)
  await owner.call('POST', '/v1/api-keys', { name: '\u202etxt.exe', permissions: [] })
  const wraps = async (count: number) => {
    const operations = Array.from({ length: count }, () => ({
      op: 'wrap',
      key_id,
      dek: randomBytes(32).toString('base64'),
    }))
    const { status } = await owner.call('POST', '/v1/batch', { operations })
    if (status !== 200) throw new Error(`a batch was answered ${status}`)
  }
  await wraps(KEPT - 4)
  kept = (await owner.call('GET', '/v1/audit/checkpoint')).body.checkpoint
  await wraps((LINES - 2 - KEPT) / 2)
  await wraps((LINES - 2 - KEPT) / 2)
  const { body } = await owner.call('GET', '/v1/audit/export')
  file = Buffer.from(body as string)
  lines = (body as string).split(/(?<=\n)/)
  publicKey = JSON.parse(lines.at(-1) ?? '').public_key
})
afterAll(async () => {
  await service?.close()
  await rm(folder, { recursive: true, force: true })
})

async function verdictOf({ file, publicKey, checkpoint, checkpoints }: VerifierJob) {
  return verifyExport(splitLines([file]), {
    publicKey,
    ...(checkpoint === undefined ? {} : { checkpoint }),
    ...(checkpoints === undefined ? {} : { checkpoints }),
  })
}

const obstacle = findObstacleToVerifier()
if (obstacle) console.warn(`Exports were verified by one program only, not by the second one: ${obstacle}.`)

/** Verifies the files by both programs, which must agree on whether, how far and up to which line each is valid. */
async function agree(files: readonly (string | Buffer)[], checkpoint?: string) {
  const jobs = files.map((file) => ({ file: Buffer.from(file), publicKey, checkpoint }))
  const verdicts = await Promise.all(jobs.map(verdictOf))
  if (!obstacle) {
    const seen = ({ valid, verified_entries, line, ...end }: Awaited<ReturnType<typeof verdictOf>>) => ({
      valid,
      verified_entries,
      ...(valid ? { whole: end.whole, missing: end.missing, head_id: end.head_id } : { line }),
    })
    const elsewhere = (await verifyElsewhere(jobs)).map((verdict) =>
      seen(verdict as Awaited<ReturnType<typeof verdictOf>>),
    )
    expect(elsewhere).toEqual(verdicts.map(seen))
  }
  return verdicts
}

async function expectRefused(files: readonly (string | Buffer)[]) {
  const verdicts = await agree(files)
  expect(verdicts.flatMap(({ valid }, at) => (valid ? [at] : []))).toEqual([])
  expect(verdicts.length).toBeGreaterThan(0)
}

function flipped(bytes: Buffer, at: number, bit = randomInt(8)): Buffer {
  const altered = Buffer.from(bytes)
  altered[at] = (altered[at] ?? 0) ^ (1 << bit)
  return altered
}

/** Makes one file per line, in which `change` has replaced that line. */
function eachLine(change: (line: string, at: number) => string): string[] {
  return lines.map((line, at) => [...lines.slice(0, at), change(line, at), ...lines.slice(at + 1)].join(''))
}

/** Makes some of these files: for the header, the trailer and a sample of the entries. */
function someLines(change: (line: string, at: number) => string): string[] {
  return eachLine(change).filter((_, at) => at < 8 || at % 15 === 0 || at === LINES - 1)
}

describe('a real export', () => {
  it('is whole and valid, with the key alone and with a checkpoint', async () => {
    expect(lines).toHaveLength(LINES)
    const expected = { valid: true, whole: true, verified_entries: LINES - 2 }
    expect(await agree([file])).toMatchObject([expected])
    expect(await agree([file], kept)).toMatchObject([{ ...expected, checkpoint_compared: true }])
    expect(JSON.parse(lines[KEPT] ?? '').id).toBe(KEPT)
  })

  it('agrees with the log that it was made of', async () => {
    const logs: { id: number }[] = []
    for (let after = 0; after < LINES - 2; after += 50) {
      logs.push(...(await owner.call('GET', `/v1/audit?order=asc&limit=50&after_id=${after}`)).body.logs)
    }
    const entries = lines.slice(1, -1).map((line) => {
      const { hash: _, metadata, ...entry } = JSON.parse(line)
      const shown = { ...JSON.parse(metadata), ...(entry.key_version && { key_version: entry.key_version }) }
      return { ...entry, metadata: shown, tenant_id: owner.tenant.tenant_id }
    })
    expect(entries).toEqual(logs)
  })

  it('is valid from any entry on, and a part then unless a checkpoint joins on to it', async () => {
    for (const after of [1, KEPT - 1, KEPT, KEPT + 1, LINES - 3, LINES - 2]) {
      const { body } = await owner.call('GET', `/v1/audit/export?after_id=${after}`)
      const expected = { valid: true, after_id: after, verified_entries: LINES - 2 - after }
      expect(await agree([body as string])).toMatchObject([{ ...expected, whole: false }])
      const compared = { whole: after === KEPT, checkpoint_compared: after <= KEPT }
      expect(await agree([body as string], kept)).toMatchObject([{ ...expected, ...compared }])
    }
  })
})

describe('a real stretch', () => {
  const all = LINES - 2
  const stretch = async (query: string) => (await owner.call('GET', `/v1/audit/export?${query}`)).body as string

  it('says where the log went on, up to any entry but the last one', async () => {
    for (const through of [1, KEPT, all - 1]) {
      const expected = { valid: true, whole: false, missing: ['end'], last_id: through, head_id: all }
      expect(await agree([await stretch(`through_id=${through}`)])).toMatchObject([expected])
    }
    expect(await agree([await stretch(`through_id=${all}`)])).toMatchObject([
      { whole: true, missing: [], head_id: all },
    ])
    const middle = await stretch('after_id=25&through_id=30')
    expect(await agree([middle])).toMatchObject([{ whole: false, missing: ['beginning', 'end'], head_id: all }])
    const none = await stretch('after_id=30&through_id=30')
    expect(await agree([none])).toMatchObject([{ whole: false, verified_entries: 0, head_id: all }])
  })

  it('is signed by nothing that could stand for the end of the log', async () => {
    const [last = ''] = (await stretch('through_id=20')).split(/(?<=\n)/).slice(-1)
    expect(Object.keys(JSON.parse(last))).toEqual(['stretch', 'public_key', 'tree'])
    const { stretch: note, tree } = JSON.parse(last) as Record<string, string>
    const forged = `${JSON.stringify({ checkpoint: note, public_key: publicKey })}\n`
    const named = note?.replace('eaas/audit/stretch/v1', 'eaas/audit/checkpoint/v1')
    const renamed = `${JSON.stringify({ checkpoint: named, public_key: publicKey })}\n`
    const begin = lines.slice(0, 21).join('')
    expect(await agree([begin + last])).toMatchObject([{ valid: true, whole: false }])
    const grown = `${JSON.stringify({ checkpoint: tree, public_key: publicKey })}\n`
    await expectRefused([begin + forged, begin + renamed, begin + grown])
    const query = `checkpoint=${encodeURIComponent(note ?? '')}`
    expect((await owner.call('GET', `/v1/audit/verify?${query}`)).status).toBe(400)
  })

  it('is compared with a checkpoint that it has the entry of, and with the end of the log', async () => {
    const short = await stretch(`through_id=${KEPT - 1}`)
    expect(await agree([short], kept)).toMatchObject([{ valid: true, whole: false, checkpoint_compared: false }])
    const long = await stretch(`through_id=${KEPT + 1}`)
    expect(await agree([long], kept)).toMatchObject([{ valid: true, whole: false, checkpoint_compared: true }])
  })
})

describe('the tree over the entries of a real export', () => {
  const proofOf = async (text: string, ids: number[]) => {
    const { proof } = await proveEntries(splitLines([Buffer.from(text)]), { ids, publicKey })
    return proof && writeProof(proof)
  }

  it('is signed, so that each entry can be proven from the whole log, from a part and from a stretch', async () => {
    for (const query of ['', '?after_id=40', '?after_id=10&through_id=31', '?through_id=1']) {
      const text = (await owner.call('GET', `/v1/audit/export${query}`)).body as string
      const ids = text
        .split('\n')
        .slice(1, -2)
        .map((line) => JSON.parse(line).id as number)
      const verdict = verifyProof((await proofOf(text, ids)) ?? '', { publicKey })
      expect(verdict).toMatchObject({
        valid: true,
        trusted_key: true,
        after_id: (ids[0] ?? 0) - 1,
        last_id: ids.at(-1),
      })
      expect(verdict.entries.map(({ id }) => id)).toEqual(ids)
    }
  })

  it('is not signed over no entry', async () => {
    const { body } = await owner.call('GET', `/v1/audit/export?after_id=${LINES - 2}`)
    expect(JSON.parse((body as string).trimEnd().split('\n').at(-1) ?? '')).not.toHaveProperty('tree')
  })

  it('is not signed over entries that somebody altered in the database, with their hashes', async () => {
    const { sql } = service.services
    const { tenant_id } = owner.tenant
    const [row] = await sql`select ip_address, hash from audit_log where tenant_id = ${tenant_id} and id = 30`
    await sql`update audit_log set ip_address = '10.9.9.9', hash = ${randomBytes(32)} where tenant_id = ${tenant_id} and id = 30`
    try {
      const text = (await owner.call('GET', '/v1/audit/export')).body as string
      expect(JSON.parse(text.trimEnd().split('\n').at(-1) ?? '')).not.toHaveProperty('tree')
      expect(await proofOf(text, [1])).toBeUndefined()
    } finally {
      await sql`
        update audit_log set ip_address = ${row?.ip_address}, hash = ${row?.hash} where tenant_id = ${tenant_id} and id = 30`
    }
  })
})

describe('an export is refused', () => {
  it('with any byte of any line altered', async () => {
    // Each line stands first in an export that begins there, so that what is before need not be read a hundred thousand times.
    const trailer = lines.at(-1) ?? ''
    const [header = ''] = lines
    const { format, tenant_id } = JSON.parse(header)
    // One expectation for all of them: thousands take as long as what they expect.
    const wrong: unknown[] = []
    for (const [at, line] of lines.entries()) {
      const before = at < 2 ? undefined : JSON.parse(lines[at - 1] ?? '')
      const start = before
        ? `${JSON.stringify({ format, tenant_id, after_id: before.id, after_hash: before.hash })}\n`
        : header
      const rest = at === 0 ? lines.slice(1) : lines.slice(at + 1)
      const front = Buffer.from(at === 0 ? '' : start)
      const bytes = Buffer.from(line)
      const back = Buffer.from(line === trailer ? '' : rest.slice(0, 2).join(''))
      for (let byte = 0; byte < bytes.length; byte++) {
        const verdict = await verdictOf({ file: Buffer.concat([front, flipped(bytes, byte), back]), publicKey })
        // The line itself is what is wrong; an id or a hash of the header can only show in the line after it.
        const shown = at === 0 ? [1, 2] : [2]
        if (verdict.valid || !shown.includes(verdict.line ?? 0)) wrong.push({ at, byte, verdict })
      }
    }
    expect(wrong).toEqual([])
  })

  it('with one bit flipped anywhere in it, by both programs', async () => {
    const everyByte = Array.from({ length: file.length }, (_, at) => at)
    const lineFeeds = everyByte.filter((at) => file[at] === 0x0a)
    const sample = [...lineFeeds, ...Array.from({ length: 200 }, () => randomInt(file.length))]
    await expectRefused(sample.map((at) => flipped(file, at)))
  })

  it('when it ends after any line, or within one', async () => {
    await expectRefused(lines.map((_, at) => lines.slice(0, at).join('')))
    await expectRefused(lines.map((line, at) => lines.slice(0, at).join('') + line.slice(0, randomInt(1, line.length))))
  })

  it('when any line is missing, twice, or exchanged with another one', async () => {
    await expectRefused(eachLine(() => ''))
    await expectRefused(eachLine((line) => line + line))
    const exchanged = (one: number, two: number) =>
      lines.map((line, at) => (at === one ? lines[two] : at === two ? lines[one] : line)).join('')
    await expectRefused(lines.slice(1).map((_, at) => exchanged(at, at + 1)))
    const pairs = Array.from({ length: 40 }, () => [randomInt(LINES / 2), randomInt(LINES / 2, LINES)] as const)
    await expectRefused(pairs.map(([one, two]) => exchanged(one, two)))
  })

  it('when a line is spelt otherwise, though it reads the same', async () => {
    const text = file.toString()
    await expectRefused([text.replaceAll('\n', '\r\n'), text.replaceAll('\n', '\r'), `\uFEFF${text}`])
    await expectRefused([`${text}\n`, `${text} `, ` ${text}`, `${text}\0`, text.slice(0, -1), `${text}{}\n`])
    await expectRefused(someLines((line) => line.replace('\n', '\r\n')))
    await expectRefused(someLines((line) => line.replace('\n', ' \n')))
    await expectRefused(someLines((line) => `\n${line}`))
    await expectRefused(someLines((line) => line.replace('":', '": ')))
    await expectRefused(someLines((line) => line.replace('{', '{"more":null,')))
    await expectRefused(someLines((line) => line.replace('}\n', ',"more":null}\n')))
    await expectRefused(
      someLines((line) => `${JSON.stringify(Object.fromEntries(Object.entries(JSON.parse(line)).reverse()))}\n`),
    )
    await expectRefused(
      someLines((line) => line.replace(/"(\w)/, (_, letter) => `"\\u00${letter.charCodeAt(0).toString(16)}`)),
    )
    for (const form of ['$&.0', '$&e0', '0$&', '+$&', '"$&"', '$&0e-1', '-$&']) {
      const spelt = (line: string) => line.replace(/(?<=":)\d+(?=[,}])/, form)
      await expectRefused(someLines(spelt).filter((other) => other !== file.toString()))
    }
  })

  it('when it was signed by another key, or is of another tenant', async () => {
    const other = await service.createTenant()
    const { body } = await other.call('GET', '/v1/audit/export')
    const [header, ...rest] = lines
    const [otherHeader] = (body as string).split(/(?<=\n)/)
    await expectRefused([
      [otherHeader, ...rest].join(''),
      [header, ...(body as string).split(/(?<=\n)/).slice(1)].join(''),
    ])
    expect(await agree([body as string], kept)).toMatchObject([{ valid: false, line: 1 }])
  })
})

describe('the published exports', () => {
  it.skipIf(obstacle)('are what the second program takes and refuses, each at its line', async () => {
    const valid = vectors.valid.map(({ file, ...given }) => ({ file: Buffer.from(file), ...optionsOf(given) }))
    expect(await verifyElsewhere(valid)).toMatchObject(
      vectors.valid.map(({ verdict }) => ({ valid: true, ...verdict })),
    )
    const refuse = vectors.refuse.map((row) => ({ file: refusedExport(row), ...optionsOf(row) }))
    const found = (await verifyElsewhere(refuse)).map(({ valid, line }, at) => ({
      name: vectors.refuse[at]?.name,
      valid,
      line,
    }))
    expect(found).toEqual(vectors.refuse.map(({ name, line }) => ({ name, valid: false, line })))
  })

  it.skipIf(obstacle)(
    'say of a log that a checkpoint contradicts what is known of it, the same by both programs',
    async () => {
      const contradicted =
        /(?:by these times, the log was|is older than the checkpoint, or the log was|rewritten, or) rolled back/
      const jobs = vectors.refuse
        .filter(({ checkpoint }) => checkpoint !== undefined)
        .map((row) => ({ file: refusedExport(row), ...optionsOf(row) }))
      const reasons = (await Promise.all(jobs.map(verdictOf))).map(({ reason = '' }) => reason)
      const elsewhere = (await verifyElsewhere(jobs)).map(({ reason = '' }) => reason)
      const told = reasons.filter((reason) => contradicted.test(reason))
      expect(elsewhere.filter((reason) => contradicted.test(reason))).toEqual(told)
      expect(told.length).toBeGreaterThanOrEqual(10)

      const { tenant_id } = JSON.parse(lines[0] ?? '')
      const end = { tenant_id, last_id: LINES - 1, hash: new Uint8Array(32) }
      for (const [created_at, known] of [
        ['2999-01-01T00:00:00.000Z', 'this is older than the checkpoint, or the log was rolled back'],
        ['2026-01-01T00:00:00.000Z', 'by these times, the log was rolled back'],
      ] as const) {
        const checkpoint = signCheckpoint(service.services.signingKey, { ...end, created_at })
        const [verdict] = await agree([file], checkpoint)
        expect(verdict?.reason).toMatch(/^the log ended with entry 60 when this was signed, at /)
        expect(verdict?.reason).toMatch(new RegExp(`; the checkpoint of ${created_at} is of entry 61: ${known}$`))
        expect((await verifyElsewhere([{ file, publicKey, checkpoint }]))[0]?.reason).toBe(verdict?.reason)
      }
    },
  )
})

interface Run {
  code: number
  out: string
  error: string
}

/** The public key of another installation. */
const OTHER_KEY = encodePublicKey(signerOf(generateKeyPairSync('ed25519').privateKey))

/** Runs a command without any variable: neither configuration nor PATH. */
async function eaas(...args: string[]): Promise<Run> {
  const { code, stdout, stderr } = await runAuditCommand(args)
  return { code: Number(code), out: stdout, error: stderr }
}

/** The same in a process of its own. */
function eaasAlone(...args: string[]): Promise<Run> {
  return eaasReading('', ...args)
}

function eaasReading(input: string | Buffer, ...args: string[]): Promise<Run> {
  return new Promise((resolve) => {
    const child = execFile(process.execPath, [EAAS_AUDIT, ...args], { env: {}, cwd: folder }, (failure, out, error) => {
      resolve({ code: failure ? Number(failure.code) : 0, out, error })
    })
    child.stdin?.end(input)
  })
}

function python(...args: string[]) {
  return spawnSync(PYTHON, ['-B', VERIFIER, ...args], { encoding: 'utf8' })
}

async function written(name: string, content: string | Buffer): Promise<string> {
  const path = join(folder, name)
  await writeFile(path, content)
  return path
}

describe('eaas-audit verify', () => {
  it('takes a key of a witness that was mistyped for a usage error, and says what to give', async () => {
    const exported = await written('witnessed', file)
    const checkpoint = await written('witnessed-checkpoint', kept)
    const { privateKey } = generateKeyPairSync('ed25519')
    const key = encodeNoteKey(createWitnessKey('witness.example/w1', signerOf(privateKey)))
    const args = (witness: string) => [
      exported,
      '--public-key',
      publicKey,
      '--checkpoint',
      checkpoint,
      '--witness',
      witness,
    ]
    const middle = key.length - 20
    for (const [witness, why] of [
      [key.replace('w1', 'w2'), 'is not the key of a witness, or was mistyped'],
      [key.slice(0, middle) + (key[middle] === 'a' ? 'b' : 'a') + key.slice(middle + 1), 'or was mistyped'],
      [key.slice(0, -1), 'or was mistyped'],
      [key.split('+')[0] ?? '', 'or was mistyped'],
      ['', 'or was mistyped'],
      [publicKey, 'is the key of a log'],
    ] as const) {
      const { code, out, error } = await eaas('verify', ...args(witness))
      expect([witness, code, out]).toEqual([witness, 2, ''])
      expect(error).toContain(`error: option '--witness': ${witness} `)
      expect(error).toContain(why)
      expect(error).toContain('Give the whole key as eaas-audit witness --create printed it')
      if (!obstacle) expect(await runOtherVerifier(args(witness))).toMatchObject({ status: 2, stdout: '' })
    }
    // A key that is one, of a witness that cosigned nothing of this, is no usage error.
    expect((await eaas('verify', ...args(key))).code).toBe(3)
    if (!obstacle) expect((await runOtherVerifier(args(key))).status).toBe(3)
  })

  it('needs no environment, no database and no secret, and says with its exit code whether the file is valid', async () => {
    const path = await written('good.ndjson', file)
    const known = await written('key.txt', `${publicKey}\n`)
    const note = await written('kept.note', kept)
    for (const args of [
      ['--public-key', publicKey],
      ['--public-key', known],
      ['--public-key', known, '--checkpoint', note],
    ]) {
      const { code, out, error } = await eaasAlone('verify', path, ...args)
      expect([code, error]).toEqual([0, ''])
      expect(out).toMatch(/^The export is valid\.\n/)
      expect(out).not.toMatch(/WARNING|PART|UNUSED/)
    }
    const piped = await eaasReading(file, 'verify', '-', '--public-key', known, '--checkpoint', note)
    expect([piped.code, piped.out, piped.error]).toEqual([0, expect.stringMatching(/^The export is valid\.\n/), ''])
    const { out } = await eaas('verify', path, '--public-key', publicKey, '--json')
    expect(JSON.parse(out)).toEqual(await verdictOf({ file, publicKey }))
    const broken = await written('broken.ndjson', flipped(file, file.length >> 1))
    const refused = await eaas('verify', broken, '--public-key', publicKey)
    expect([refused.code, refused.error]).toEqual([1, ''])
    expect(refused.out).toMatch(/^The export is NOT valid: .* \(line \d+/)
    expect((await eaas('verify', join(folder, 'nothing'))).code).toBe(3)
    expect((await eaas('verify')).code).toBe(2)
  })

  it('says of a cut file through which entry it was signed, and with which it ends', async () => {
    const lines = file.toString().split('\n')
    const last = LINES - 2
    const gone = Buffer.from([...lines.slice(0, -3), ...lines.slice(-2)].join('\n'))
    const noEnd = Buffer.from(`${lines.slice(0, -3).join('\n')}\n`)
    expect(await verifyByBoth({ file: gone, publicKey })).toMatchObject({
      valid: false,
      signed_through: last,
      last_id: last - 1,
      broken_at: last,
      reason: `the file was signed through entry ${last}, and ends with entry ${last - 1}`,
    })
    expect(await verifyByBoth({ file: noEnd, publicKey })).toMatchObject({
      valid: false,
      reason: `the file was cut short: it ends with entry ${last - 1}, without the line that is signed`,
    })
    if (!obstacle) expect(await verifyElsewhere([{ file: gone, publicKey }])).toMatchObject([{ signed_through: last }])
  })

  it('says through which entry the log was purged, and which key signed', async () => {
    const purged = vectors.valid.find(({ name }) => name === 'a log after a purge')?.file ?? ''
    const path = await written('purged.ndjson', Buffer.from(purged))
    const { code, out } = await eaas('verify', path, '--public-key', vectors.public_key)
    expect(code).toBe(0)
    expect(out).toMatch(/^purged {6}through entry 3, as a later entry of the file says$/m)
    expect(out).toContain(`by key      ${vectors.public_key}\n`)
  })

  it('ends with a code of its own for each thing that a valid export does not prove, and with the highest of several', async () => {
    const fetched = async (query: string) => (await owner.call('GET', `/v1/audit/export?${query}`)).body as string
    const whole = await written('whole.ndjson', file)
    const late = await written('late.ndjson', await fetched(`after_id=${KEPT + 20}`))
    const early = await written('early.ndjson', await fetched(`through_id=${KEPT - 10}`))
    const joined = await written('joined.ndjson', await fetched(`after_id=${KEPT}`))
    const note = ['--checkpoint', await written('early.note', kept)]
    const key = ['--public-key', publicKey]
    const [part, unused, untrusted] = [/^PART /m, /^UNUSED /m, /^WARNING /m]
    const cases: [string[], number, RegExp[]][] = [
      [[whole, ...key, ...note], 0, []],
      [[joined, ...key, ...note], 0, []],
      [[late, ...key], 4, [part]],
      [[early, ...key], 4, [part]],
      [[joined, ...key], 4, [part]],
      [[late, ...key, ...note], 5, [part, unused]],
      [[early, ...key, ...note], 5, [part, unused]],
      [[whole], 6, [untrusted]],
      [[late], 6, [part, untrusted]],
    ]
    for (const [args, expected, words] of cases) {
      const { code, out, error } = await eaas('verify', ...args)
      expect([args, code, error]).toEqual([args, expected, ''])
      for (const word of [part, unused, untrusted])
        expect([out, word, word.test(out)]).toEqual([out, word, words.includes(word)])
      if (!obstacle) expect([args, (await runOtherVerifier(args)).status]).toEqual([args, expected])
    }
    expect((await eaas('verify', early, ...key)).out).toContain(
      `went on after entry ${KEPT - 10}, to entry ${LINES - 2}`,
    )
    const help = (await eaas('verify', '--help')).out
    for (const code of [0, 1, 2, 3, 4, 5, 6]) expect(help).toMatch(new RegExp(`^  ${code}  `, 'm'))
  })

  it('takes no export as a checkpoint, and tells a key that is none from one that does not fit', async () => {
    const path = await written('own.ndjson', file)
    const own = await eaas('verify', path, '--public-key', publicKey, '--checkpoint', path)
    expect([own.code, own.out, own.error]).toEqual([3, '', expect.stringMatching(/own\.ndjson: this is an export/)])

    const mistyped = publicKey.slice(0, -1) + (publicKey.endsWith('A') ? 'B' : 'A')
    for (const key of [mistyped, await written('mistyped.txt', `${mistyped}\n`), await written('note.txt', kept)]) {
      for (const args of [['verify'], ['rights', '--at', '2026-01-01T00:00:00Z']]) {
        const { code, out, error } = await eaas(...args, path, '--public-key', key)
        expect([key, code, out, error]).toEqual([key, 2, '', expect.stringContaining("option '--public-key'")])
      }
    }
    const { code, out } = await eaas('verify', path, '--public-key', OTHER_KEY)
    const reason =
      'names a different public key from the one given; if the operator replaced the key since, give the earlier one'
    expect([code, out]).toEqual([1, expect.stringContaining(reason)])
  })

  it('says of a file that it cannot read what is wrong with the path', async () => {
    const path = await written('readable.ndjson', file)
    const none = join(folder, 'none')
    const key = ['--public-key', publicKey]
    for (const [args, wrong, reason] of [
      [['verify', none], none, 'it does not exist'],
      [['verify', folder], folder, 'it is a directory, and must be a file'],
      [['verify', path, ...key, '--checkpoint', none], none, 'it does not exist'],
      [['verify', path, ...key, '--checkpoint', folder], folder, 'it is a directory, and must be a file'],
      [['verify', path, '--public-key', none], none, 'it does not exist'],
      [
        ['rights', join(path, 'x'), '--at', '2026-01-01T00:00:00Z'],
        join(path, 'x'),
        'a part of the path is no directory',
      ],
    ] as const) {
      const { code, out, error } = await eaas(...args)
      expect([code, out, error]).toEqual([3, '', `eaas-audit: ${wrong}: ${reason}\n`])
    }
  })

  it.skipIf(obstacle)('has a second program beside it, with the same exit codes', async () => {
    const path = await written('again.ndjson', file)
    const good = python(path, '--public-key', publicKey, '--checkpoint', await written('again.note', kept))
    expect([good.status, good.stderr]).toEqual([0, ''])
    expect(JSON.parse(good.stdout)).toMatchObject({ valid: true, whole: true, checkpoint_compared: true })
    const mailed = await written('mailed.note', `\ufeff${kept.replaceAll('\n', '\r\n')}`)
    expect(python(path, '--public-key', publicKey, '--checkpoint', mailed)).toMatchObject({ status: 0, stderr: '' })
    expect(python(path).stderr).toContain('WARNING')
    expect(python(await written('bad.ndjson', flipped(file, 1_000)), '--public-key', publicKey).status).toBe(1)
    expect(python().status).toBe(2)
    expect(python(join(folder, 'nothing')).status).toBe(3)
  })
})
