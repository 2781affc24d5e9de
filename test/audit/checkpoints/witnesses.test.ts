// Witnesses of the installation's log: a real `eaas-audit witness` cosigns what a server shows it, and shows what the server's database lost.
import { once } from 'node:events'
import { copyFile, mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer as createHttpServer } from 'node:http'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { INSTALLATION_ID } from '@eaas/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { encodePublicKey } from '../../../packages/audit/src/formats/checkpoint.js'
import { readWitnessKey } from '../../../packages/audit/src/formats/cosignature.js'
import { merkleRoot } from '../../../packages/audit/src/formats/merkle.js'
import { encodeNoteKey } from '../../../packages/audit/src/formats/signed-note.js'
import { readTreeKey } from '../../../packages/audit/src/formats/tree.js'
import { findWitnessed } from '../../../packages/audit/src/formats/witnessed.js'
import { listWitnessedLines, parseKept } from '../../../packages/audit/src/verify/kept-checkpoint.js'
import { headMac } from '../../../packages/server/src/core/audit/formats/chain.js'
import { findHead } from '../../../packages/server/src/core/store/audit.js'
import { anchorNow } from '../../../packages/server/src/guard/anchor-heads.js'
import { askWitnesses, createWitnessRound } from '../../../packages/server/src/guard/jobs/ask-witnesses.js'
import { createTreeReader } from '../../../packages/server/src/guard/operations/proven-tree.js'
import { freshDatabase } from '../../support/database/database.js'
import { runAuditCommand, runCommand, runDoctor } from '../../support/service/command-host.js'
import { createTenantInProcess, startEaas } from '../../support/service/eaas-process.js'
import { startServer } from '../../support/service/server.js'
import { ROOT_KEY, type Service, startService } from '../../support/service/service.js'
import { startWitness, type WitnessProcess } from '../../support/service/witness.js'
import { findObstacleToVerifier, runOtherVerifier } from '../verify/other-verifier.js'

const obstacle = findObstacleToVerifier()
if (obstacle) console.warn(`The second verifier did not read what witnesses cosigned: ${obstacle}`)

let folder: string
let service: Service
let witness: WitnessProcess
let other: WitnessProcess
let publicKey: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-witnesses-'))
  service = await startService()
  publicKey = encodePublicKey(service.services.signingKey)
  const log = encodeNoteKey(readTreeKey(publicKey))
  witness = await startWitness([log])
  other = await startWitness([log], { name: 'other.example/w2' })
})
afterAll(async () => {
  await service?.close()
  for (const one of [witness, other]) await one?.remove()
  await rm(folder, { recursive: true, force: true })
})

const known = (one: WitnessProcess, url = one.process.url) => ({ key: readWitnessKey(one.key), url })
const roundOf = (of: Service, witnesses = [known(witness), known(other)], file = join(folder, 'checkpoints')) =>
  createWitnessRound(of.services, { witnesses, file })
/** A key as messages name it: without the key itself. */
const shortName = ({ key }: WitnessProcess) => key.split('+').slice(0, 2).join('+')
const kinds = async (round: ReturnType<typeof roundOf>) => (await round({ isLast: false }))?.map(({ kind }) => kind)
const lastId = async () => (await findHead(service.services.sql, INSTALLATION_ID))?.last_id ?? 0
/** Also beside an alarm: a tenant of one of the tests is in no log any more. */
const grow = () => anchorNow(service.services, { evenIfSame: true, mayLeave: true })

async function newest(witnesses: readonly string[], file = join(folder, 'checkpoints')) {
  const lines = listWitnessedLines(parseKept(await readFile(file, 'utf8')))
  return findWitnessed(lines, { publicKey, witnesses: witnesses.map(readWitnessKey) })
}

/** What was written after an entry is deleted, and the rows put in its place; returns what was deleted. */
async function replaceAfter(to: number, { entries, head }: { entries: readonly Row[]; head: Row }, of = service) {
  const { sql } = of.services
  const lost = await sql<Row[]>`select * from audit_log where tenant_id = ${INSTALLATION_ID} and id > ${to}`
  const latest = await readHead(of)
  await sql`delete from audit_log where tenant_id = ${INSTALLATION_ID} and id > ${to}`
  if (entries.length > 0) await sql`insert into audit_log ${sql(entries)}`
  await sql`update heads set ${sql(head)} where tenant_id = ${INSTALLATION_ID}`
  return { entries: lost, head: latest }
}

type Row = Record<string, unknown>

/** The root of the tree that ends with the head that is in the database. */
async function readNow(read = createTreeReader()): Promise<Uint8Array> {
  const { sql, installationKey, signingKey } = service.services
  const head = await findHead(sql, INSTALLATION_ID)
  if (!head) throw new Error('no head')
  const { publicKeys } = signingKey
  return merkleRoot(await read(sql, head, { auditKey: installationKey, publicKeys }))
}

async function readHead(of = service): Promise<Row> {
  const [head] = await of.services.sql<Row[]>`select * from heads where tenant_id = ${INSTALLATION_ID}`
  return head ?? {}
}

async function restart(): Promise<void> {
  await service.close()
  service = await startService({ database: service.database })
}

describe('witnesses of a server', () => {
  it('cosign its log at once, from the first entry on, and then as it grows', async () => {
    const round = roundOf(service)
    await grow()
    expect(await kinds(round)).toEqual(['cosigned', 'cosigned'])
    const first = await newest([witness.key, other.key])
    expect(first.last_id).toBe(await lastId())
    for (let more = 0; more < 5; more++) await grow()
    expect(await kinds(round)).toEqual(['cosigned', 'cosigned'])
    expect(await newest([witness.key, other.key])).toMatchObject({ last_id: first.last_id + 5 })
  })

  it('cosign an unchanged log again, of which no further line is written', async () => {
    const round = roundOf(service)
    await round({ isLast: false })
    const before = await readFile(join(folder, 'checkpoints'), 'utf8')
    expect(await kinds(round)).toEqual(['cosigned', 'cosigned'])
    expect(await readFile(join(folder, 'checkpoints'), 'utf8')).toBe(before)
  })

  it('are asked by a process that knows nothing of what they cosigned, and by several of one installation', async () => {
    const [first, second] = [roundOf(service), roundOf(service)]
    for (const round of [first, second, first]) {
      await grow()
      expect(await kinds(round)).toEqual(['cosigned', 'cosigned'])
    }
    const both = await Promise.all([first({ isLast: false }), second({ isLast: false })])
    for (const outcome of both.flat()) expect(['cosigned', 'overtaken']).toContain(outcome?.kind)
  })

  it('do not stop each other: one that is down is asked again, and the line has the others', async () => {
    await grow()
    const file = join(folder, 'one-down')
    const round = roundOf(service, [known(witness), known(other, 'http://127.0.0.1:9')], file)
    expect(await kinds(round)).toEqual(['cosigned', 'failed'])
    expect((await newest([witness.key], file)).last_id).toBe(await lastId())
    await expect(newest([witness.key, other.key], file)).rejects.toThrow(
      `${shortName(other)} has not cosigned it: its lines are cosigned by ${shortName(witness)}. Compare the key`,
    )
  })

  it.each([
    ['a size that it was sent', [0, 0, 0], 'it answered 409 with the size 0 that it was sent'],
    ['another size each time', [1, 2, 3], 'it answered each request with another size'],
  ])('contradict nothing with %s', async (_, sizes, detail) => {
    for (let more = 0; more < 4; more++) await grow() // beyond each of the sizes
    const answers = sizes.values()
    const liar = createHttpServer((request, response) => {
      request.resume().on('end', () => {
        response.writeHead(409, { 'content-type': 'text/x.tlog.size' }).end(`${answers.next().value}\n`)
      })
    }).listen(0, '127.0.0.1')
    await once(liar, 'listening')
    const url = `http://127.0.0.1:${(liar.address() as AddressInfo).port}`
    try {
      const outcomes = await roundOf(service, [known(witness, url)])({ isLast: false })
      expect(outcomes).toMatchObject([{ kind: 'failed', detail }])
    } finally {
      liar.close()
      liar.closeAllConnections()
    }
  })

  it('do not cosign for an installation that they do not know', async () => {
    const stranger = await startService()
    try {
      const outcomes = await roundOf(stranger)({ isLast: false })
      expect(outcomes).toMatchObject([{ kind: 'failed' }, { kind: 'failed' }])
      expect(outcomes?.[0]?.detail).toContain('eaas audit public-key --tree')
    } finally {
      await stranger.close()
    }
  })

  it('show a database that was put back while no server ran, before and after it grew past what they cosigned', async () => {
    const to = await lastId()
    const head = await readHead()
    for (let more = 0; more < 3; more++) await grow()
    expect(await kinds(roundOf(service))).toEqual(['cosigned', 'cosigned'])
    const readTree = createTreeReader()
    await readNow(readTree)
    const lost = await replaceAfter(to, { entries: [], head })
    await restart()
    try {
      await expect(readNow(readTree)).resolves.toEqual(await readNow()) // which an operator may have accepted
      const round = roundOf(service)
      const outcomes = await round({ isLast: false })
      expect(outcomes?.map(({ kind }) => kind)).toEqual(['contradicted', 'contradicted'])
      expect(outcomes?.[0]?.detail).toBe(
        `it cosigned entry ${to + 3} of the installation's log, which ends with entry ${to}`,
      )
      for (let more = 0; more < 3; more++) await grow()
      await expect(readNow(readTree)).resolves.toEqual(await readNow())
      expect(await kinds(round)).toEqual(['contradicted', 'contradicted']) // as long, and another
      await grow()
      expect(await kinds(round)).toEqual(['contradicted', 'contradicted']) // longer
      const tenant = await service.createTenant()
      expect((await tenant.call('POST', '/v1/keys', { name: 'served' })).status).toBe(201)
    } finally {
      await replaceAfter(to, lost)
      await restart()
    }
  })

  it('are shown no tree of a hash that somebody edited for a moment, and the true one afterwards', async () => {
    const { sql } = service.services
    const round = roundOf(service)
    /** Runs the round while another hash stands in the place of an entry's. */
    const edited = async (id: number) => {
      const where = sql`where tenant_id = ${INSTALLATION_ID} and id = ${id}`
      const [entry] = await sql<{ hash: Buffer }[]>`select hash from audit_log ${where}`
      await sql`update audit_log set hash = ${Buffer.alloc(32, 0x11)} ${where}`
      try {
        return await kinds(round)
      } finally {
        await sql`update audit_log set hash = ${entry?.hash ?? null} ${where}`
      }
    }
    for (const _ of ['of the first tree', 'of a later one']) {
      for (let more = 0; more < 3; more++) await grow()
      const id = (await lastId()) - 1
      await expect(edited(id)).rejects.toThrow(`entry ${id} of the installation's log was altered`)
      expect(await kinds(round)).toEqual(['cosigned', 'cosigned'])
    }
    await grow()
    await expect(edited(2)).resolves.toEqual(['cosigned', 'cosigned']) // what was proven is not read again
  })

  it('are shown no log whose entries do not end with its head', async () => {
    const { sql, signingKey, installationKey } = service.services
    for (let more = 0; more < 3; more++) await grow()
    const head = await findHead(sql, INSTALLATION_ID)
    if (!head) throw new Error('no head')
    const sizes = new Map([[readWitnessKey(witness.key).name, head.last_id + 99]]) // that of a log which was put back
    const ask = (of: typeof head, from: unknown = sql) =>
      askWitnesses({ sql: from as typeof sql, signingKey, installationKey }, of, {
        witnesses: [known(witness)],
        sizes,
        timeoutMs: 10_000,
      })
    await expect(ask(head)).resolves.toMatchObject({ outcomes: [{ kind: 'cosigned' }] })
    await expect(ask({ ...head, policy_version: head.policy_version + 1 })).rejects.toThrow(
      /was not written by a server/,
    )
    const sealed = (changes: Partial<typeof head>) => {
      const other = { ...head, ...changes }
      return { ...other, mac: headMac(installationKey, other) }
    }
    await expect(ask(sealed({ last_id: head.last_id + 1 }))).rejects.toThrow(
      `entry ${head.last_id + 1} of the installation's log is missing`,
    )
    await expect(ask(sealed({ hash: new Uint8Array(32) }))).rejects.toThrow(/do not end with its head/)
    const withGap = sql.begin(async (transaction) => {
      await transaction`delete from audit_log where tenant_id = ${INSTALLATION_ID} and id = ${head.last_id - 1}`
      return ask(head, transaction) // which throws, and so undoes the deletion
    })
    await expect(withGap).rejects.toThrow(`entry ${head.last_id - 1} of the installation's log is missing`)
  })
})

describe('a server process with witnesses', () => {
  it('has its log cosigned from its start to its stop; what it keeps proves exports to who trusts the witness alone', async () => {
    const file = join(folder, 'of-process')
    const first = await startService()
    const { database } = first
    const treeKey = encodeNoteKey(readTreeKey(encodePublicKey(first.services.signingKey)))
    await first.close()
    const own = await startWitness([treeKey])
    const environment = {
      EAAS_CHECKPOINT_FILE: file,
      EAAS_WITNESSES: `${own.key} ${own.process.url}, ${other.key} ${other.process.url}`,
    }
    const options = { database, rootKey: ROOT_KEY, environment }
    const server = await startServer(options)
    try {
      expect((await runCommand(['audit', 'public-key', '--tree'], options)).stdout.trim()).toBe(treeKey)
      await expect.poll(() => readFile(file, 'utf8'), { timeout: 20_000 }).toContain('"tree":')
      const { tenant_id } = await createTenantInProcess(options, 'witnessed')
      const metrics = async () => (await fetch(`${server.url}/metrics`)).text()
      await expect
        .poll(metrics, { timeout: 20_000 })
        .toMatch(/^eaas_witness_contradicted\{witness="witness.example\/w1"\} 0$/m)
      expect(await metrics()).toMatch(/^eaas_witness_cosignature_age_seconds\{witness="other.example\/w2"\} /m)
      // The other witness does not know this installation.
      expect(server.log).toContain('a witness did not cosign')
      expect((await runDoctor(options)).found('witnesses')).toMatchObject({
        ok: true,
        warning: true,
        detail: expect.stringContaining('other.example/w2: it answered 404'),
      })

      await server.stop()
      const known = (await runCommand(['audit', 'public-key'], options)).stdout.trim()
      // As an auditor keeps it: the export is an entry too, whose checkpoint the command appends to the file.
      const copied = join(folder, 'copied')
      await copyFile(file, copied)
      const verify = async (args: string[]) => {
        const files = ['--public-key', known, '--checkpoint', copied]
        const { code, stdout, stderr } = await runAuditCommand(['verify', ...args, ...files])
        return {
          code,
          text: stdout + stderr,
          python: obstacle ? code : (await runOtherVerifier([...args, ...files])).status,
        }
      }
      // The tenant's export has the anchor that the stop left, which the last cosigned checkpoint ends with.
      const [ofTenant, ofInstallation] = [join(folder, 'tenant.ndjson'), join(folder, 'installation.ndjson')]
      expect((await runCommand(['audit', 'export', '--tenant', tenant_id, '--out', ofTenant], options)).code).toBe(0)
      expect((await runCommand(['audit', 'export', '--installation', '--out', ofInstallation], options)).code).toBe(0)
      for (const exported of [ofTenant, ofInstallation]) {
        expect(await verify([exported, '--witness', own.key])).toMatchObject({
          code: 0,
          text: expect.stringContaining('cosigned entry'),
          python: 0,
        })
        const both = await verify([exported, '--witness', own.key, '--witness', other.key])
        expect(both).toMatchObject({
          code: 3,
          text: expect.stringContaining(
            `${shortName(other)} has not cosigned it: its lines are cosigned by ${shortName(own)}.`,
          ),
          python: 3,
        })
        expect(await verify([exported, '--witness', own.key.replace('w1', 'w2')])).toMatchObject({ code: 2, python: 2 })
      }
      // An anchor that no witness has cosigned: the export links it to what they cosigned.
      const verifyAgain = async (name: string) => {
        const again = join(folder, name)
        await copyFile(file, copied)
        expect((await runCommand(['audit', 'export', '--tenant', tenant_id, '--out', again], options)).code).toBe(0)
        return verify([again, '--witness', own.key])
      }
      const agrees = (order: string) => ({
        code: 0,
        text: expect.stringMatching(
          new RegExp(`^checkpoint  agrees: entry \\d+ of the installation's log, .* ${order}`, 'm'),
        ),
        python: 0,
      })
      expect((await runCommand(['audit', 'checkpoint', '--installation'], options)).code).toBe(0)
      expect(await verifyAgain('unseen-anchor.ndjson')).toMatchObject(agrees('goes on from it to the anchor'))
      // A start of which the entry is cosigned, behind the anchor.
      const cosigned = async () => listWitnessedLines(parseKept(await readFile(file, 'utf8'))).length
      const before = await cosigned()
      await server.start()
      await expect.poll(cosigned, { timeout: 20_000 }).toBeGreaterThan(before)
      expect(await verifyAgain('after-start.ndjson')).toMatchObject(agrees('has the anchor up to it'))
      await server.stop()
      const inPlace = ['--checkpoint', file, '--witness', own.key]
      expect(await runCommand(['audit', 'verify', '--all', ...inPlace], options)).toMatchObject({
        code: 0,
        stdout: expect.stringMatching(/^witnesses {3}cosigned entry \d+ of the installation's log/m),
      })
      const verified = await runCommand(['audit', 'verify', '--installation', ...inPlace], options)
      expect(verified).toMatchObject({
        code: 0,
        stdout: expect.stringMatching(
          /^checkpoint {2}agrees: entry \d+ of the installation's log, hash \S+, signed at .*\nby key {6}eaas-audit/m,
        ),
      })
      expect(verified.stdout).toContain('witnesses   cosigned entry')
      expect(
        (await runCommand(['audit', 'verify', '--all', '--checkpoint', file, '--witness', other.key], options)).code,
      ).toBe(3)
      expect((await runCommand(['audit', 'verify', '--all', '--witness', own.key], options)).code).toBe(2)
      const mistyped = ['--checkpoint', file, '--witness', own.key.slice(0, -1)]
      expect(await runCommand(['audit', 'verify', '--all', ...mistyped], options)).toMatchObject({
        code: 2,
        stderr: expect.stringContaining('was mistyped: its parts do not belong together'),
      })
      expect((await runCommand(['audit', 'verify', '--tenant', 'a', ...inPlace], options)).code).toBe(2)
      expect((await runAuditCommand(['verify', ofTenant, '--witness', own.key])).code).toBe(2)
    } finally {
      await server.stop()
      await own.remove()
      await database.drop()
    }
  })

  it('keeps what shows that an export of today is of a log that was put back, though it has what they cosigned before', async () => {
    const first = await startService()
    const { database } = first
    const own = await startWitness([encodeNoteKey(readTreeKey(encodePublicKey(first.services.signingKey)))])
    const file = join(folder, 'went-back')
    const exported = join(folder, 'went-back.ndjson')
    const growBy = async (count: number) => {
      for (let more = 0; more < count; more++) await anchorNow(first.services, { evenIfSame: true })
    }
    try {
      const { tenant } = await first.createTenant()
      await growBy(1)
      expect(await kinds(roundOf(first, [known(own)], file))).toEqual(['cosigned'])
      const head = await readHead(first)
      await growBy(3)
      expect(await kinds(roundOf(first, [known(own)], file))).toEqual(['cosigned'])
      await replaceAfter(Number(head.last_id), { entries: [], head }, first)
      await first.close()
      const environment = { EAAS_CHECKPOINT_FILE: 'none' }
      const options = { database, rootKey: ROOT_KEY, environment }
      expect((await runCommand(['audit', 'checkpoint', '--installation'], options)).code).toBe(0)
      const args = ['audit', 'export', '--tenant', tenant.tenant_id, '--since', file, '--out', exported]
      expect((await runCommand(args, options)).code).toBe(0)
      const publicKey = encodePublicKey(first.services.signingKey)
      const compared = [exported, '--public-key', publicKey, '--checkpoint', file]
      for (const more of [[], ['--witness', own.key]]) {
        const { code, stdout, stderr } = await runAuditCommand(['verify', ...compared, ...more])
        expect([code, stdout + stderr]).toEqual([1, expect.stringContaining('by these times, the log was rolled back')])
        if (!obstacle) expect((await runOtherVerifier([...compared, ...more])).status).toBe(1)
      }
    } finally {
      await own.remove()
      await database.drop()
    }
  })

  it('goes on with its witness after a restored copy was examined with the settings of the server', async () => {
    const first = await startService()
    const { database } = first
    const own = await startWitness([encodeNoteKey(readTreeKey(encodePublicKey(first.services.signingKey)))])
    const copy = await freshDatabase('rehearsed')
    const [backup, file] = [join(folder, 'rehearsed.backup'), join(folder, 'rehearsed')]
    const environment = { EAAS_WITNESSES: `${own.key} ${own.process.url}`, EAAS_CHECKPOINT_FILE: 'none' }
    const run = (args: string[], on = database) => runCommand(args, { database: on, rootKey: ROOT_KEY, environment })
    const doctor = async () => (await runDoctor({ database: copy, rootKey: ROOT_KEY, environment })).found('witnesses')
    const restarted = async (work: (service: Service) => Promise<void>) => {
      const again = await startService({ database })
      await work(again).finally(() => again.close())
    }
    try {
      await anchorNow(first.services, { evenIfSame: true })
      await first.close()
      expect((await run(['backup', backup, '--plain'])).code).toBe(0)
      expect((await run(['restore', backup], copy)).code).toBe(0)
      expect(await doctor()).toMatchObject({ ok: true, warning: true, detail: expect.stringContaining('nothing') })
      let cosigned = 0
      await restarted(async (again) => {
        expect(await kinds(roundOf(again, [known(own)], file))).toEqual(['cosigned'])
        cosigned = Number((await readHead(again)).last_id)
      })
      expect((await run(['audit', 'verify', '--all'], copy)).code).toBe(0)
      expect(await doctor()).toMatchObject({ ok: true, detail: expect.stringContaining(`w1: entry ${cosigned}`) })
      await restarted(async (again) => {
        for (let more = 0; more < 9; more++) await anchorNow(again.services, { evenIfSame: true })
        expect(await kinds(roundOf(again, [known(own)], file))).toEqual(['cosigned'])
      })
      expect(await doctor()).toMatchObject({ ok: false, detail: expect.stringContaining('it cosigned entry') })
    } finally {
      await own.remove()
      await database.drop()
      await copy.drop()
    }
  })

  it('says at level fatal, in its metrics and in doctor that it was put back, and serves', async () => {
    const first = await startService()
    const { database } = first
    const own = await startWitness([encodeNoteKey(readTreeKey(encodePublicKey(first.services.signingKey)))])
    const head = await readHead(first)
    for (let more = 0; more < 9; more++) await anchorNow(first.services, { evenIfSame: true })
    expect(await kinds(roundOf(first, [known(own)], join(folder, 'put-back')))).toEqual(['cosigned'])
    await replaceAfter(Number(head.last_id), { entries: [], head }, first)
    await first.close()
    const options = {
      database,
      rootKey: ROOT_KEY,
      environment: { EAAS_WITNESSES: `${own.key} ${own.process.url}`, EAAS_CHECKPOINT_FILE: 'none' },
    }
    const server = await startServer(options)
    try {
      await expect.poll(() => server.log, { timeout: 20_000 }).toMatch(/"level":60.*that this one does not continue/)
      const metrics = await (await fetch(`${server.url}/metrics`)).text()
      expect(metrics).toMatch(/^eaas_witness_contradicted\{witness="witness.example\/w1"\} 1$/m)
      const { api_key } = await createTenantInProcess(options, 'served')
      const authorization = `Bearer ${api_key.secret}`
      expect((await fetch(`${server.url}/v1/keys`, { headers: { authorization } })).status).toBe(200)
      const { code, findings } = await runDoctor(options)
      expect(code).toBe(1)
      expect(findings.filter(({ ok }) => !ok)).toMatchObject([
        { check: 'witnesses', detail: expect.stringContaining('it cosigned entry') },
      ])
      await server.stop()
      const again = await startService({ database })
      await again.services.sql`update tenants set envelope_only = not envelope_only`
      await again.close()
      expect((await runDoctor(options)).findings.filter(({ ok }) => !ok)).toMatchObject([
        { check: 'audit chains' },
        { check: 'witnesses', detail: expect.stringContaining('it cosigned entry') },
      ])
    } finally {
      await server.stop()
      await own.remove()
      await database.drop()
    }
  })

  it('serves, asks once at a time, and stops in its time while a witness accepts and never answers', async () => {
    const silent = createServer().listen(0, '127.0.0.1')
    const sockets = new Set<Socket>()
    let most = 0
    silent.on('connection', (socket) => {
      sockets.add(socket)
      socket
        .on('error', () => undefined)
        .on('close', () => sockets.delete(socket))
        .resume()
      most = Math.max(most, sockets.size)
    })
    await once(silent, 'listening')
    const database = await freshDatabase('silent_witness', { migrated: true })
    const url = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`
    const server = await startEaas({
      database,
      rootKey: ROOT_KEY,
      environment: { EAAS_WITNESSES: `${witness.key} ${url}` },
    })
    try {
      await expect.poll(() => most, { timeout: 20_000 }).toBeGreaterThan(0)
      const { api_key } = await createTenantInProcess({ database, rootKey: ROOT_KEY }, 'served')
      const authorization = `Bearer ${api_key.secret}`
      expect((await fetch(`${server.url}/v1/keys`, { headers: { authorization } })).status).toBe(200)
      expect(most).toBe(1) // although a new database has a round more, for its first tenant
      const ended = await server.stop()
      expect(ended).toMatchObject({ code: 0, stderr: expect.not.stringContaining('did not stop in time') })
      expect(ended.stderr).toContain('it did not answer in time') // when it stopped
    } finally {
      for (const socket of sockets) socket.destroy()
      silent.close()
      await database.drop()
    }
  })

  it('does not start with a key that is none', async () => {
    const options = { database: service.database, rootKey: ROOT_KEY }
    const environment = { EAAS_WITNESSES: `witness.example/w1+00000000+${'A'.repeat(44)} http://127.0.0.1:9` }
    await expect(startServer({ ...options, environment })).rejects.toThrow('not a public key of this type')
  })
})
