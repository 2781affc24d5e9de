// Signed checkpoints: the server signs the state of a log on request and on a schedule, and never signs what it did not write.

import { appendFile, mkdir, mkdtemp, readFile, rename, rm, rmdir, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { INSTALLATION_ID } from '@eaas/protocol'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { entryHash, genesisHash } from '../../../packages/audit/src/formats/chain.js'
import { readCheckpoint } from '../../../packages/audit/src/formats/checkpoint.js'
import { splitLines } from '../../../packages/audit/src/verify/split-lines.js'
import { verifyExport } from '../../../packages/audit/src/verify/verify-export.js'
import { readChain } from '../../../packages/server/src/core/store/audit.js'
import { createCheckpointEmitter } from '../../../packages/server/src/guard/jobs/emit-checkpoints.js'
import { readKeptFile } from '../../../packages/server/src/guard/watch/kept-witnesses.js'
import { databaseWithTenant } from '../../support/database/filled-database.js'
import { runAuditCommand, runCommand } from '../../support/service/command-host.js'
import { startEaas } from '../../support/service/eaas-process.js'
import { startServer } from '../../support/service/server.js'
import { type Caller, ROOT_KEY, type Service, startService } from '../../support/service/service.js'

const NOW = Date.parse('2026-03-01T00:00:00.000Z')
/** Text that every signed note contains; a refusal must not contain it. */
const SIGNATURE = /— eaas-audit|eaas\/audit\/checkpoint/

let service: Service
let publicKey: string
let folder: string
let owner: Caller
let tenant_id: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-checkpoints-'))
  service = await startService({ now: () => NOW })
  const { code, stdout } = await runCommand(['audit', 'public-key'], { database: service.database, rootKey: ROOT_KEY })
  expect(code).toBe(0)
  publicKey = stdout.trim()
})
afterAll(async () => {
  await service?.close()
  await rm(folder, { recursive: true, force: true })
})

// Five entries: the tenant's first one and four keys.
beforeEach(async () => {
  failed = []
  owner = await service.createTenant()
  tenant_id = owner.tenant.tenant_id
  for (const name of ['a', 'b', 'c', 'd']) await owner.call('POST', '/v1/keys', { name })
})

/** The tenants for which signing a checkpoint failed. */
let failed: string[]
const noteFailed = (_: unknown, id: string) => void failed.push(id)

const chain = () => readChain(service.services.sql, { tenant_id, after_id: 0, through_id: 100, limit: 100 })
const later = (name: string) => owner.call('POST', '/v1/keys', { name })

describe('a checkpoint', () => {
  it('states the last entry, signed by the key that the operator gives out', async () => {
    const { status, body } = await owner.call('GET', '/v1/audit/checkpoint')
    expect([status, body.public_key]).toEqual([200, publicKey])
    const last = (await chain()).at(-1)
    expect(readCheckpoint(body.checkpoint, publicKey)).toEqual({
      tenant_id,
      last_id: 5,
      hash: new Uint8Array(last?.hash ?? []),
      created_at: '2026-03-01T00:00:00.000Z',
    })
  })

  it('is the same by the command line, as a note or as JSON', async () => {
    const options = { database: service.database, rootKey: ROOT_KEY }
    const note = await runCommand(['audit', 'checkpoint', '--tenant', tenant_id], options)
    expect(readCheckpoint(note.stdout, publicKey)).toMatchObject({ tenant_id, last_id: 5 })
    const json = await runCommand(['audit', 'checkpoint', '--tenant', tenant_id, '--json'], options)
    expect(readCheckpoint(JSON.parse(json.stdout).checkpoint, publicKey)).toMatchObject({ tenant_id, last_id: 5 })
  })

  it('holds against the log that went on since, and against an export of it', async () => {
    const { checkpoint } = (await owner.call('GET', '/v1/audit/checkpoint')).body
    await later('e')
    const { status, body } = await owner.call('GET', `/v1/audit/verify?checkpoint=${encodeURIComponent(checkpoint)}`)
    expect([status, body.valid, body.checkpoint]).toEqual([200, true, { id: 5, compared: true }])
    const file = (await owner.call('GET', '/v1/audit/export')).body as string
    expect(await verifyExport(splitLines([Buffer.from(file)]), { publicKey, checkpoint })).toMatchObject({
      valid: true,
      checkpoint_compared: true,
      last_id: 6,
    })
  })

  it("is no use where it is altered, another tenant's, or another installation's", async () => {
    const { checkpoint } = (await owner.call('GET', '/v1/audit/checkpoint')).body
    const other = await service.createTenant()
    const altered = checkpoint.replace('\n5\n', '\n4\n')
    for (const [caller, note] of [
      [owner, altered],
      [owner, ''],
      [owner, 'x'],
      [owner, checkpoint.trimEnd()],
      [other, checkpoint],
    ] as const) {
      const { status, body } = await caller.call('GET', `/v1/audit/verify?checkpoint=${encodeURIComponent(note)}`)
      expect([note, status, body.code]).toEqual([note, 400, 'E_VALIDATION'])
    }
  })
})

interface Line {
  tenant_id: string
  checkpoint: string
  public_key: string
}

async function linesOf(path: string): Promise<Line[]> {
  const text = await readFile(path, 'utf8')
  expect(text.endsWith('\n')).toBe(true)
  return text
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
}

/** The ids that a file has checkpoints of, of our tenant, each verified. */
async function emittedIds(path: string): Promise<number[]> {
  return (await linesOf(path)).flatMap((line) => {
    const statement = readCheckpoint(line.checkpoint, publicKey)
    expect([statement.tenant_id, line.public_key]).toEqual([line.tenant_id, publicKey])
    return line.tenant_id === tenant_id ? [statement.last_id] : []
  })
}

describe('checkpoints on a schedule', () => {
  it('are written for each log that grew, and for no other', async () => {
    const path = join(folder, 'grew')
    const emit = createCheckpointEmitter(service.services, path, noteFailed)
    await emit()
    expect(await emittedIds(path)).toEqual([5])
    const tenants = new Set((await linesOf(path)).map((line) => line.tenant_id))
    expect(tenants.size).toBe((await linesOf(path)).length)
    await emit()
    expect(await emittedIds(path)).toEqual([5])
    await later('e')
    const before = (await linesOf(path)).length
    await emit()
    await emit()
    expect(await emittedIds(path)).toEqual([5, 6])
    expect(await linesOf(path)).toHaveLength(before + 1)
  })

  it('are appended to what the file has', async () => {
    const path = join(folder, 'appended')
    await createCheckpointEmitter(service.services, path, noteFailed)()
    await later('e')
    await createCheckpointEmitter(service.services, path, noteFailed)()
    expect(await emittedIds(path)).toEqual([5, 6])
  })

  it('that could not be written are written next time', async () => {
    const emit = createCheckpointEmitter(service.services, join(folder, 'nowhere', 'file'), noteFailed)
    await expect(emit()).rejects.toThrow('ENOENT')
    await expect(emit()).rejects.toThrow('ENOENT')
  })

  it('of which a full disk took a part stand on a line of their own the next time', async () => {
    const path = join(folder, 'full')
    const emit = createCheckpointEmitter(service.services, path, noteFailed)
    await emit()
    await later('e')
    await rename(path, `${path}-kept`)
    await mkdir(path) // an append fails
    await expect(emit()).rejects.toThrow('EISDIR')
    await rmdir(path)
    await rename(`${path}-kept`, path)
    await appendFile(path, '{"tenant_id":"0195f3a0')
    await emit()
    const lines = (await readFile(path, 'utf8')).trimEnd().split('\n')
    expect(lines.at(-2)).toBe('{"tenant_id":"0195f3a0')
    await writeFile(path, `${lines.toSpliced(-2, 1).join('\n')}\n`)
    expect(await emittedIds(path)).toEqual([5, 6])
  })

  it('are written for the others where one log is broken, and where a head has no tenant', async () => {
    const other = await startService({ now: () => NOW })
    const { sql } = other.services
    try {
      for (const name of ['a', 'b', 'c']) await other.createTenant({ name })
      const [broken, ...sound] = (await sql<{ tenant_id: string }[]>`select tenant_id from heads order by 1`).map(
        (row) => row.tenant_id,
      )
      await sql`update heads set mac = ${Buffer.alloc(32)} where tenant_id = ${broken ?? ''}`
      const nobody = '00000000-0000-4000-8000-000000000001'
      await sql`insert into heads select ${nobody}, last_id, hash, policy_version, created_at, mac from heads limit 1`
      const path = join(folder, 'broken')
      await createCheckpointEmitter(other.services, path, noteFailed)()
      expect((await linesOf(path)).map(({ tenant_id }) => tenant_id)).toEqual(sound)
      expect(failed.sort()).toEqual([broken, nobody].sort())
    } finally {
      await other.close()
    }
  })

  it('are written by the running server to where its configuration says', async () => {
    const { database, tenant_id } = await databaseWithTenant()
    const path = join(folder, 'server')
    const eaas = await startServer({ database, environment: { EAAS_CHECKPOINT_FILE: path } })
    const known = (await runCommand(['audit', 'public-key'], { database })).stdout.trim()
    await eaas.stop()
    const lines = (await linesOf(path)).filter((line) => line.tenant_id === tenant_id)
    expect(lines.map(({ checkpoint }) => readCheckpoint(checkpoint, known))).toMatchObject([{ last_id: 1 }])
    const printing = await startEaas({ database, environment: { EAAS_CHECKPOINT_FILE: '-' } })
    const { stdout } = await printing.stop()
    const printed = stdout.split('\n').filter((text) => text.startsWith(`{"tenant_id":"${tenant_id}"`))
    expect(stdout).toContain(`{"tenant_id":"${INSTALLATION_ID}"`)
    expect(printed).toHaveLength(1)
    expect(readCheckpoint(JSON.parse(printed[0] ?? '').checkpoint, known)).toMatchObject({ tenant_id, last_id: 1 })
  })
})

describe('lines of the file that are not as a server wrote them', () => {
  /** A file of four lines of ours, each of one more entry; then it is edited. */
  async function edited(name: string, edit: (lines: string[]) => string[]): Promise<string> {
    const path = join(folder, name)
    const emit = createCheckpointEmitter(service.services, path, noteFailed)
    for (let at = 0; at < 4; at++) {
      await later(`${name} ${at}`)
      await emit()
    }
    const own = (await readFile(path, 'utf8')).split('\n').filter((line) => line.includes(tenant_id))
    expect(own).toHaveLength(4)
    await writeFile(path, edit(own).join('\n'))
    return path
  }
  const change = (line: string | undefined, edit: (members: Record<string, unknown>) => Record<string, unknown>) =>
    JSON.stringify(edit(JSON.parse(line ?? '')))
  const read = (path: string) =>
    readKeptFile(path, publicKey, { isThorough: true, findAuditKeys: async () => new Map() })

  it.each<[string, (lines: string[]) => string[], [number, RegExp][]]>([
    ['none', (lines) => [...lines, ''], []],
    ['a comment', ([a = '', ...rest]) => [a, '# note to self', ...rest, ''], [[2, /not the line/]]],
    [
      'a line cut in the midst, which proves nothing',
      ([a = '', b = '', ...rest]) => [a, b.slice(0, 90), ...rest, ''],
      [],
    ],
    ['a last line that lacks its line feed alone', (lines) => lines, []],
    [
      'a lower entry id',
      ([a = '', b = '', c = '', d = '']) => [a, b, c, d.replace(/\\n9\\n/, '\\n7\\n'), ''],
      [[4, /contradicts/]],
    ],
    [
      'another time of signing',
      ([a = '', b = '', ...rest]) => [a, b.replace('2026-03-01', '2026-03-02'), ...rest, ''],
      [[2, /signature/]],
    ],
    [
      'another policy version',
      ([a = '', ...rest]) => [change(a, (line) => ({ ...line, policy_version: 8 })), ...rest, ''],
      [[2, /contradicts/]],
    ],
    [
      'no policy version',
      ([a = '', ...rest]) => [change(a, ({ policy_version: _, ...line }) => line), ...rest, ''],
      [[1, /lacks/]],
    ],
    [
      'a renamed member',
      ([a = '', ...rest]) => [a.replace('"checkpoint"', '"chekpoint"'), ...rest, ''],
      [[1, /not the line/]],
    ],
    [
      "another tenant's id",
      ([a = '', ...rest]) => [change(a, (line) => ({ ...line, tenant_id: publicKey })), ...rest, ''],
      [[1, /not the line/]],
    ],
    [
      'another key',
      ([a = '', ...rest]) => [change(a, (line) => ({ ...line, public_key: 'eaas-audit+0' })), ...rest, ''],
      [[1, /another signing key/]],
    ],
  ])('are told by their numbers: %s', async (name, edit, expected) => {
    const { faults } = await read(await edited(name.replaceAll(' ', '-'), edit))
    expect(faults).toEqual(expected.map(([line, what]) => ({ line, what: expect.stringMatching(what) })))
  })

  it('do not hide what the others state: a policy version that was lowered or left out counts as little as it can', async () => {
    for (const policy_version of [1, undefined]) {
      const path = await edited(`lowered-${policy_version}`, (lines) => [
        ...lines.slice(0, 3),
        change(lines[3], (line) => ({ ...line, policy_version })),
        '',
      ])
      const { witnesses } = await read(path)
      const newest = (await chain()).at(-1)
      expect(witnesses.get(tenant_id)).toMatchObject({ last_id: newest?.id, hash: new Uint8Array(newest?.hash ?? []) })
    }
  })

  it('do not pass for the newest by a policy version that nobody authenticated', async () => {
    const raise = (line: string | undefined, head?: object) =>
      change(line, (members) => ({ ...members, policy_version: 2 ** 33 + 1, ...(head && { head }) }))
    const { auditKey } = (await service.services.states.find(tenant_id)) ?? expect.unreachable()
    const known = new Map([[tenant_id, auditKey]])
    for (const head of [
      undefined,
      { created_at: '2026-03-01T00:00:00.000Z', mac: Buffer.alloc(32).toString('base64') },
    ]) {
      const path = await edited(`raised-${head === undefined}`, ([a = '', ...rest]) => [a, raise(a, head), ...rest, ''])
      const newest = (await chain()).at(-1)
      for (const keys of [known, new Map()]) {
        const options = { isThorough: false, findAuditKeys: async () => keys }
        const { witnesses } = await readKeptFile(path, publicKey, options)
        expect(witnesses.get(tenant_id)).toMatchObject({
          last_id: newest?.id,
          hash: new Uint8Array(newest?.hash ?? []),
        })
      }
    }
  })

  it('hide none of an earlier entry that was written after the latest', async () => {
    const path = await edited('besides', ([a = '', b = '', c = '', d = '']) => [d, b, c, a, c.replace('— ', '— x'), ''])
    expect((await read(path)).others).toEqual([expect.objectContaining({ tenant_id, line: 3 })])
  })

  it('hide none that follows, however long they are', async () => {
    const path = await edited('long', ([a = '', ...rest]) => [a, '\0'.repeat(17 * 1_048_576), ...rest, ''])
    const { witnesses, faults, lines } = await read(path)
    expect(witnesses.get(tenant_id)).toMatchObject({ last_id: (await chain()).at(-1)?.id })
    expect([faults, lines]).toEqual([[{ line: 2, what: expect.stringContaining('too long') }], 5])
  })

  it('are in the log of a server that starts, which goes on, and found wrong by doctor', {
    timeout: 60_000,
  }, async () => {
    const path = join(folder, 'edited')
    const environment = { EAAS_CHECKPOINT_FILE: path }
    const { database } = await databaseWithTenant()
    const eaas = await startServer({ database, environment })
    await eaas.stop()
    expect(eaas.log).not.toContain('checkpoint file')
    expect((await runCommand(['doctor'], { database, environment })).stdout).toMatch(/ok +checkpoints/)
    await appendFile(path, '# note to self\n')
    const { lines } = await read(path)
    const { code, stdout } = await runCommand(['doctor'], { database, environment })
    expect([code, stdout]).toEqual([1, expect.stringMatching(new RegExp(`WRONG +checkpoints +line ${lines}: `))])
    await eaas.start()
    await eaas.stop()
    expect(eaas.log).toMatch(new RegExp(`"level":40.*line ${lines}: .*lines that no server wrote as they are`))
  })

  it('raise no alarm by a policy version that nobody signed, which no accepted rollback could end', {
    timeout: 60_000,
  }, async () => {
    const path = join(folder, 'raised')
    const environment = { EAAS_CHECKPOINT_FILE: path }
    const { database, api_key } = await databaseWithTenant()
    const eaas = await startServer({ database, environment })
    const headers = { authorization: `Bearer ${api_key.secret}` }
    const list = async () => (await fetch(`${eaas.url}/v1/keys`, { headers })).status
    expect(await list()).toBe(200)
    await eaas.stop()
    for (const policy_version of [999_999, Number.MAX_SAFE_INTEGER]) {
      const [line] = (await readFile(path, 'utf8')).trimEnd().split('\n').slice(-1)
      await writeFile(path, `${change(line, (members) => ({ ...members, policy_version }))}\n`)
      await eaas.start()
      expect(await list()).toBe(200)
      await eaas.stop()
      expect(eaas.log).not.toContain('no longer served')
    }
  })
})

describe('a checkpoint as it is kept', () => {
  const options = () => ({ database: service.database, rootKey: ROOT_KEY })

  async function verifyBy(text: string) {
    const [kept, exported] = [join(folder, 'kept'), join(folder, 'exported')]
    await writeFile(kept, text)
    await writeFile(exported, (await owner.call('GET', '/v1/audit/export')).body)
    const common = ['--checkpoint', kept, '--json']
    const inPlace = await runCommand(['audit', 'verify', '--tenant', tenant_id, ...common], options())
    const offline = await runAuditCommand(['verify', exported, '--public-key', publicKey, ...common])
    return { inPlace, offline }
  }

  const fetchNote = async () => (await owner.call('GET', '/v1/audit/checkpoint')).body

  const rethrow = (error: unknown) => {
    throw error
  }

  async function lines(): Promise<string> {
    const path = join(folder, `lines-${tenant_id}`)
    const emit = createCheckpointEmitter(service.services, path, rethrow)
    await emit()
    await later('e')
    await emit()
    const [older, newer] = (await readFile(path, 'utf8'))
      .split(/^(?=.*"tenant_id")/m)
      .filter((line) => line.includes(tenant_id))
    await (await service.createTenant()).call('GET', '/v1/keys')
    await createCheckpointEmitter(service.services, `${path}-others`, rethrow)()
    const others = (await readFile(`${path}-others`, 'utf8')).split('\n').filter((line) => !line.includes(tenant_id))
    return `EaaS is listening\n${newer}${older}${others.join('\n')}{"tenant_id":"cut sho`
  }

  it.each([
    ['a note', 5, async () => (await fetchNote()).checkpoint],
    ['the answer of the API', 5, async () => JSON.stringify(await fetchNote())],
    ['the answer of the API, laid out', 5, async () => JSON.stringify(await fetchNote(), null, 2)],
    ['lines of the server, of which the newest counts', 6, lines],
  ])('is taken as %s', async (_, id, keep) => {
    const text = await keep()
    await later('f')
    const { inPlace, offline } = await verifyBy(text)
    expect([inPlace.code, inPlace.stderr]).toEqual([0, ''])
    expect(JSON.parse(inPlace.stdout)).toMatchObject({ valid: true, checkpoint: { id, compared: true } })
    // The server's lines have some of the installation, with which an export by the API cannot be compared.
    const isCompared = keep !== lines
    expect([offline.code, offline.stderr]).toEqual([isCompared ? 0 : 5, ''])
    expect(JSON.parse(offline.stdout)).toMatchObject({ valid: true, checkpoint_compared: isCompared })
  })

  it("is no use among others' lines alone, nor with a line that somebody forged", async () => {
    const others = JSON.stringify((await (await service.createTenant()).call('GET', '/v1/audit/checkpoint')).body)
    const { checkpoint } = await fetchNote()
    const forged = JSON.stringify({ checkpoint: checkpoint.replace('\n5\n', '\n6\n') })
    for (const [text, sentence] of [
      [`${others}\n`, 'it contains no checkpoint of this tenant'],
      [`${JSON.stringify({ checkpoint })}\n${forged}\n`, 'signature'],
      ['{}', 'this is not a checkpoint of an EaaS audit log'],
    ] as const) {
      const { inPlace, offline } = await verifyBy(text)
      for (const { code, stdout, stderr } of [inPlace, offline]) {
        expect([sentence, code === 0, stdout]).toEqual([sentence, false, ''])
        expect(stderr).toContain(sentence)
      }
    }
  })
})

/** Whether a route answers with anything that is signed. */
async function expectNothingSigned(path: string, statuses: number[]): Promise<void> {
  const { status, body } = await owner.call('GET', path)
  expect([path, statuses.includes(status) ? statuses : status]).toEqual([path, statuses])
  expect(JSON.stringify(body)).not.toMatch(SIGNATURE)
}

type Change = [string, (sql: Service['services']['sql']) => Promise<unknown>]

describe('the server signs nothing', () => {
  const HEADS: Change[] = [
    ['with another hash', (sql) => sql`update heads set hash = ${Buffer.alloc(32)} where tenant_id = ${tenant_id}`],
    ['that was set back', (sql) => sql`update heads set last_id = 4 where tenant_id = ${tenant_id}`],
    ['that was set forward', (sql) => sql`update heads set last_id = 6 where tenant_id = ${tenant_id}`],
    ['with another policy version', (sql) => sql`update heads set policy_version = 99 where tenant_id = ${tenant_id}`],
    ['with another time', (sql) => sql`update heads set created_at = now() where tenant_id = ${tenant_id}`],
    ['without a MAC', (sql) => sql`update heads set mac = ${Buffer.alloc(0)} where tenant_id = ${tenant_id}`],
    [
      'with the MAC of its entry',
      (sql) => sql`
      update heads h set mac = e.mac from audit_log e
      where h.tenant_id = ${tenant_id} and e.tenant_id = h.tenant_id and e.id = h.last_id`,
    ],
    [
      "with another tenant's head",
      (sql) => sql`
      update heads h set last_id = o.last_id, hash = o.hash, created_at = o.created_at, mac = o.mac,
        policy_version = o.policy_version
      from (select * from heads where tenant_id <> ${tenant_id} limit 1) o where h.tenant_id = ${tenant_id}`,
    ],
    ['that is gone', (sql) => sql`delete from heads where tenant_id = ${tenant_id}`],
  ]

  it.each(HEADS)('for a head %s', async (_, change) => {
    await service.createTenant()
    await change(service.services.sql)
    await expectNothingSigned('/v1/audit/checkpoint', [401, 500, 503])
    await expectNothingSigned('/v1/audit/export', [401, 500, 503])
    await expectNothingSigned('/v1/audit/export?through_id=3', [401, 500, 503])
    const path = join(folder, `tampered-${tenant_id}`)
    const emit = createCheckpointEmitter(service.services, path, noteFailed)
    await emit() // told of; or the tenant is no longer listed
    const text = await readFile(path, 'utf8').catch(() => '')
    expect(text).not.toContain(`"tenant_id":"${tenant_id}"`)
    await service.services.sql`delete from heads where tenant_id = ${tenant_id}`
  })

  const ENTRIES: Change[] = [
    ['with another actor', (sql) => sql`update audit_log set actor = 'x' where tenant_id = ${tenant_id} and id = 3`],
    [
      'a millisecond later',
      (sql) => sql`
      update audit_log set created_at = created_at + interval '1 ms' where tenant_id = ${tenant_id} and id = 3`,
    ],
    [
      'with another hash',
      (sql) => sql`
      update audit_log set hash = ${Buffer.alloc(32)} where tenant_id = ${tenant_id} and id = 3`,
    ],
    [
      'with another MAC',
      (sql) => sql`
      update audit_log set mac = ${Buffer.alloc(32)} where tenant_id = ${tenant_id} and id = 3`,
    ],
    [
      'after another entry',
      (sql) => sql`
      update audit_log set hash = ${Buffer.alloc(32)} where tenant_id = ${tenant_id} and id = 2`,
    ],
    ['that is gone', (sql) => sql`delete from audit_log where tenant_id = ${tenant_id} and id = 3`],
    ['whose predecessor is gone', (sql) => sql`delete from audit_log where tenant_id = ${tenant_id} and id = 2`],
    [
      'that was chained anew by somebody without the key',
      async (sql) => {
        const [first, second, third] = await chain()
        if (!first || !second || !third) throw new Error('the log is too short')
        const hash = entryHash(entryHash(first.hash, second), { ...third, actor: 'x' })
        await sql`update audit_log set actor = 'x', hash = ${hash} where tenant_id = ${tenant_id} and id = 3`
      },
    ],
  ]

  it.each(ENTRIES)('for a stretch that ends or begins with an entry %s', async (_, change) => {
    await change(service.services.sql)
    await expectNothingSigned('/v1/audit/export?through_id=3', [400])
    await expectNothingSigned('/v1/audit/export?after_id=3', [400])
  })

  it('that vouches for an altered entry in the midst: the export has it as it stands, and does not verify', async () => {
    await service.services.sql`update audit_log set actor = 'x' where tenant_id = ${tenant_id} and id = 2`
    for (const query of ['', '?through_id=4']) {
      const file = (await owner.call('GET', `/v1/audit/export${query}`)).body as string
      const verdict = await verifyExport(splitLines([Buffer.from(file)]), { publicKey })
      expect(verdict).toMatchObject({ valid: false, broken_at: 2, line: 3 })
    }
  })

  it('for a log that was written anew from its genesis without the key', async () => {
    const { sql } = service.services
    let hash = genesisHash(tenant_id)
    for (const entry of await chain()) {
      hash = entryHash(hash, { ...entry, ip_address: '192.0.2.1' })
      await sql`
        update audit_log set ip_address = '192.0.2.1', hash = ${hash} where tenant_id = ${tenant_id} and id = ${entry.id}`
    }
    await sql`update heads set hash = ${hash} where tenant_id = ${tenant_id}`
    await expectNothingSigned('/v1/audit/checkpoint', [500, 503])
    await expectNothingSigned('/v1/audit/export', [500, 503])
    await expectNothingSigned('/v1/audit/export?through_id=3', [500, 503])
  })
})
