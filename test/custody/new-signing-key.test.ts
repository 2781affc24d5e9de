// A rotation of the store key makes a new signing key. Whoever knows the earlier one can follow; whoever stole it can't pass for the new one.
import { createSecretKey, randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { INSTALLATION_ID } from '@eaas/protocol'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { readTreeKeys } from '../../packages/audit/src/formats/tree.js'
import {
  encodeNoteKey,
  encodePublicKey,
  followKeyChanges,
  readWitnessKey,
  signCheckpoint,
  signKeyChange,
  splitLines,
  trailerLine,
  type VerifyExportOptions,
  verifyExport,
} from '../../packages/audit/src/index.js'
import { signingKeyOf } from '../../packages/audit/src/node/signing-key.js'
import { verifyAudit } from '../../packages/server/src/core/api/audit.js'
import { exportAudit } from '../../packages/server/src/core/api/audit-export.js'
import { openSecret } from '../../packages/server/src/core/crypto/key-hierarchy.js'
import { InstallationKey } from '../../packages/server/src/core/runner/installation-key.js'
import { performAsSystem } from '../../packages/server/src/core/runner/perform.js'
import { findHead } from '../../packages/server/src/core/store/audit.js'
import { findInstance } from '../../packages/server/src/core/store/instance.js'
import { anchorNow } from '../../packages/server/src/guard/anchor-heads.js'
import {
  askWitnesses,
  compareWithWitnesses,
  createWitnessRound,
} from '../../packages/server/src/guard/jobs/ask-witnesses.js'
import { createCheckpointEmitter } from '../../packages/server/src/guard/jobs/emit-checkpoints.js'
import { createTreeReader, UnprovenTreeError } from '../../packages/server/src/guard/operations/proven-tree.js'
import { readKeptFile } from '../../packages/server/src/guard/watch/kept-witnesses.js'
import { findObstacleToVerifier, verifyByBoth } from '../audit/verify/other-verifier.js'
import { rotateAged } from '../support/custody/rotation.js'
import { backend, freshDatabase, type TestDatabase } from '../support/database/database.js'
import { runAuditCommand, runCommand } from '../support/service/command-host.js'
import { type Caller, ROOT_KEY, type Service, startService } from '../support/service/service.js'
import { startWitness } from '../support/service/witness.js'

const obstacle = findObstacleToVerifier()
if (obstacle) console.warn(`The second verifier did not read the exports: ${obstacle}`)

let folder: string
let service: Service
let acme: Caller
let before: string
/** a checkpoint of before the rotation */
let kept: string
/** the earlier signing key, in a thief's hand */
let stolen: ReturnType<typeof signingKeyOf>

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-signing-key-'))
})
afterAll(() => rm(folder, { recursive: true }))
beforeEach(async () => {
  service = await startService()
  const { sql, storeKeys, signingKey } = service.services
  acme = await service.createTenant()
  before = encodePublicKey(signingKey)
  kept = (await acme.call('GET', '/v1/audit/checkpoint')).body.checkpoint
  const row = await findInstance(sql)
  stolen = signingKeyOf(openSecret(storeKeys, { purpose: 'signing-key' }, row?.wrapped_signing_key ?? new Uint8Array()))
})
afterEach(() => service.close())

const now = () => encodePublicKey(service.services.signingKey)
const exported = async () => Buffer.from((await acme.call('GET', '/v1/audit/export')).body as string)
const verify = (file: Uint8Array, options: VerifyExportOptions) => verifyExport(splitLines([file]), options)
const changesOf = () => followKeyChanges(service.services.signingKey.changes)
const EARLIER = { trusted_key: false, valid: true }

describe('a rotation of the store key', () => {
  it('has everything signed by a new key from then on; the earlier one is gone', async () => {
    await rotateAged(service)
    expect(now()).not.toBe(before)
    const { body } = await acme.call('GET', '/v1/audit/checkpoint')
    expect(body.public_key).toBe(now())
    expect(await verify(await exported(), { publicKey: now() })).toMatchObject({ valid: true, trusted_key: true })
    expect(await verify(await exported(), { publicKey: now() })).not.toHaveProperty('key_changes')
    expect(changesOf()).toMatchObject([{ from: before, to: now() }])
    await rotateAged(service)
    expect(changesOf()).toMatchObject([{ from: before }, { to: now() }])
    expect((await acme.call('GET', '/v1/audit/verify')).body).toMatchObject({ valid: true })
  })

  it('is told to an auditor who knows the earlier key, who is not to take the new one for granted', async () => {
    await rotateAged(service)
    const file = await exported()
    expect(await verify(file, { publicKey: before })).toMatchObject({
      ...EARLIER,
      key_changes: [{ from: before, to: now() }],
    })
    const path = join(folder, 'acme.ndjson')
    await writeFile(path, file)
    const { code, stdout } = await runAuditCommand(['verify', path, '--public-key', before])
    expect(code).toBe(6)
    expect(stdout).toMatch(/KEY CHANGED from .*\n.*WARNING/s)
    for (const key of [before, now()]) expect(stdout).toContain(key)
    expect((await runAuditCommand(['verify', path, '--public-key', now()])).code).toBe(0)
  })

  it('leaves checkpoints that were kept comparable, with either key, and in the database', async () => {
    await rotateAged(service)
    const file = await exported()
    for (const publicKey of [before, now()]) {
      const verdict = await verifyByBoth({ file, publicKey, checkpoint: kept })
      expect(verdict).toMatchObject({ valid: true, checkpoint_compared: true })
    }
    const { tenant_id } = acme.tenant
    const inPlace = performAsSystem(service.services, tenant_id, verifyAudit({ checkpoint: kept }))
    expect(await inPlace).toMatchObject({ valid: true, checkpoint: { compared: true } })
  })

  it('keeps the key with keepsSecrets', async () => {
    await rotateAged(service, { keepsSecrets: true })
    expect(now()).toBe(before)
    expect(service.services.signingKey.changes).toEqual([])
  })

  it.skipIf(backend() === 'embedded')('is followed by another server, and by one that starts', async () => {
    const { database } = service
    const other = await startService({ database })
    await rotateAged(service)
    expect(encodePublicKey(other.services.signingKey)).toBe(before)
    await other.refreshStoreKeys()
    expect(other.services.signingKey.publicKeys).toEqual([before, now()])
    const started = await startService({ database })
    expect(started.services.signingKey.publicKeys).toEqual([before, now()])
    await started.close()
    await other.close()
  })

  it('is one log to a witness, which gets one key more', async () => {
    const { services } = service
    const keysOf = () => readTreeKeys(services.signingKey.publicKeys).map(encodeNoteKey)
    const witness = await startWitness(keysOf())
    const round = (witnesses: { key: ReturnType<typeof readWitnessKey>; url: string }[]) =>
      createWitnessRound(services, { witnesses, file: join(folder, 'cosigned') })({ isLast: false })
    const known = { key: readWitnessKey(witness.key), url: witness.process.url }
    expect(await round([known])).toMatchObject([{ kind: 'cosigned' }])
    await rotateAged(service)
    expect(await round([known])).toMatchObject([{ kind: 'failed' }]) // it does not know the new key yet
    await witness.process.stop()
    await writeFile(join(witness.directory, 'logs'), keysOf().join('\n'))
    const { startEaas } = await import('../support/service/eaas-process.js')
    const again = await startEaas(witness.options)
    expect(await round([{ ...known, url: again.url }])).toMatchObject([{ kind: 'cosigned' }])
    await again.stop()
    await witness.remove()
  })
})

describe('the file of checkpoints', () => {
  it('is read on with lines of both keys, and shows a database of before the rotation', async () => {
    const file = join(folder, randomBytes(4).toString('hex'))
    const emit = createCheckpointEmitter(service.services, file, (error) => expect(error).toBeUndefined())
    await emit()
    await rotateAged(service)
    await acme.call('POST', '/v1/keys', { name: 'later' })
    await emit()
    const own = await readKeptFile(file, service.services.signingKey.publicKeys, {
      isThorough: true,
      findAuditKeys: async () => new Map(),
    })
    expect(own.faults).toEqual([])
    // A server on a backup of before knows the earlier key alone.
    const gone = await readKeptFile(file, before, { isThorough: true, findAuditKeys: async () => new Map() })
    expect(gone.faults).toEqual([])
    expect(gone.witnesses.get(acme.tenant.tenant_id)?.last_id).toBe(3)
  })
})

describe.skipIf(backend() === 'embedded')('a backup of before the rotation', { timeout: 60_000 }, () => {
  let restored: TestDatabase
  const file = (name: string) => join(folder, name)
  const eaas = (...args: string[]) => runCommand(args, { database: restored, rootKey: ROOT_KEY })
  const log = () => ['--tenant', acme.tenant.name]

  beforeEach(async () => {
    restored = service.database
    const backup = file(randomBytes(4).toString('hex'))
    await eaas('backup', backup, '--plain')
    await rotateAged(service)
    await acme.call('POST', '/v1/keys', { name: 'later' })
    await rm(file('lines'), { force: true })
    await createCheckpointEmitter(service.services, file('lines'), (error) => expect(error).toBeUndefined())()
    await writeFile(file('tenant'), (await eaas('audit', 'checkpoint', ...log())).stdout)
    await writeFile(file('installation'), (await eaas('audit', 'checkpoint', '--installation')).stdout)
    restored = await freshDatabase('of_before')
    expect((await eaas('restore', backup)).code).toBe(0)
  })

  it('is compared with what has the statement of the later key', async () => {
    for (const of of [log(), ['--all']]) {
      const { code, stdout } = await eaas('audit', 'verify', ...of, '--checkpoint', file('lines'))
      expect([of, code, stdout]).toEqual([of, 1, expect.stringContaining('behind_checkpoint')])
    }
    const { code, stdout } = await eaas('audit', 'diff', '--all', '--checkpoint', file('lines'), '--json')
    const outcomes = JSON.parse(stdout).logs.map(({ outcome }: { outcome: string }) => outcome)
    expect([code, outcomes]).toEqual([1, ['different', 'different']])
    await writeFile(file('export'), await exported())
    expect((await eaas('audit', 'diff', ...log(), '--export', file('export'))).code).toBe(1)
    const byEarlier = ['verify', file('export'), '--public-key', before, '--checkpoint', file('tenant')]
    expect(await runAuditCommand(byEarlier)).toMatchObject({ code: 6, stdout: expect.stringContaining('agrees') })
  })

  it.each([
    ['verify', '--all', 'installation'],
    ['verify', '--installation', 'installation'],
    ['diff', '--installation', 'installation'],
    ['diff', '--all', 'tenant'],
  ])('says why it is not compared with a checkpoint alone: %s %s', async (command, of, checkpoint) => {
    const { code, stdout, stderr } = await eaas('audit', command, of, '--checkpoint', file(checkpoint))
    expect([code, stderr]).toEqual([3, expect.stringContaining('before the signing key was replaced')])
    if (checkpoint === 'installation') return
    expect(stdout).toMatch(/^installation .* not compared +the file has no checkpoint of it$/m)
    expect(stdout).toMatch(/ not compared +no key of this installation signed the checkpoints of it$/m)
  })
})

describe('a thief with the earlier signing key', () => {
  it('signs no checkpoint that passes for the new key, or in the database', async () => {
    await rotateAged(service)
    const forged = signCheckpoint(stolen, {
      tenant_id: acme.tenant.tenant_id,
      last_id: 1,
      hash: new Uint8Array(32),
      created_at: new Date().toISOString(),
    })
    const file = await exported()
    expect(await verifyByBoth({ file, publicKey: now(), checkpoint: forged })).toMatchObject({ valid: false })
    const lines = file.toString().split(/(?<=\n)/)
    const last = (await acme.call('GET', '/v1/audit')).body.total
    const hash = Buffer.from(JSON.parse(lines.at(-2) ?? '').hash, 'hex')
    const checkpoint = signCheckpoint(stolen, {
      tenant_id: acme.tenant.tenant_id,
      last_id: last,
      hash,
      created_at: new Date().toISOString(),
    })
    const own = trailerLine({ checkpoint, public_key: encodePublicKey(stolen) })
    const without = JSON.stringify({ ...JSON.parse(lines[0] ?? ''), key_changes: undefined })
    for (const text of [[...lines.slice(0, -1), own].join(''), [`${without}\n`, ...lines.slice(1, -1), own].join('')]) {
      expect(await verifyByBoth({ file: Buffer.from(text), publicKey: now() })).toMatchObject({ valid: false })
    }
  })

  it('can name another successor, which is untrusted by itself, and an alarm beside the true one', async () => {
    await rotateAged(service)
    const thief = signingKeyOf(createSecretKey(randomBytes(32)))
    const note = signKeyChange(stolen, thief, new Date().toISOString())
    const file = join(folder, 'checkpoints-of-the-thief')
    await writeFile(file, `${JSON.stringify({ checkpoint: kept, key_change: note })}\n`)
    const path = join(folder, 'acme-2.ndjson')
    await writeFile(path, await exported())
    const { code, stderr } = await runAuditCommand(['verify', path, '--public-key', now(), '--checkpoint', file])
    expect(code).not.toBe(0)
    expect(stderr).toContain('was replaced by two')
  })

  it('has no export and no tree state a key of theirs, though they can write to the database', async () => {
    await rotateAged(service)
    await anchorNow(service.services, { evenIfSame: true })
    const { sql, storeKeys } = service.services
    const exportedBy = async (services: Service['services'], demanded: number[] = []) => {
      const scope = { withAnchor: true, toLink: { known: [], demanded } }
      let text = ''
      for await (const chunk of await performAsSystem(services, acme.tenant.tenant_id, exportAudit(scope)))
        text += chunk
      return text
    }
    expect(await exportedBy(service.services)).toContain('"installation":')
    const thief = signingKeyOf(createSecretKey(randomBytes(32)))
    const told = JSON.stringify({ key_change: signKeyChange(thief, stolen, new Date().toISOString()) })
    const [first] = await sql`select action, metadata from audit_log where tenant_id = ${INSTALLATION_ID} and id = 1`
    const edit = (action: string, metadata: string) =>
      sql`update audit_log set action = ${action}, metadata = ${metadata} where tenant_id = ${INSTALLATION_ID} and id = 1`
    await edit('installation.secrets_rotate', told)
    const row = await findInstance(sql)
    if (!row) throw new Error('there is no installation')
    // As a process reads it that starts now.
    const signingKey = await InstallationKey.open(sql, storeKeys, row)
    expect(signingKey.publicKeys).toEqual([encodePublicKey(thief), before, now()])
    const services = { ...service.services, signingKey }
    const readTree = createTreeReader()
    for (const isPutBack of [false, true]) {
      if (isPutBack) await edit(first?.action, first?.metadata)
      const text = await exportedBy(services)
      expect(text).not.toMatch(/"installation":|^\{"anchor"/m)
      expect(await verify(Buffer.from(text), { publicKey: now() })).toMatchObject({ valid: true })
      await expect(exportedBy(services, [1])).rejects.toMatchObject({ code: 'E_STATE' })
      const own = performAsSystem(services, INSTALLATION_ID, exportAudit({}))
      await expect(own).rejects.toMatchObject({ code: 'E_STATE', message: expect.stringContaining('log') })
      const head = await findHead(sql, INSTALLATION_ID)
      if (!head) throw new Error('there is no head')
      const asked = { witnesses: [], sizes: new Map(), timeoutMs: 1_000, readTree }
      for (const ask of [askWitnesses, compareWithWitnesses])
        await expect(ask(services, head, asked)).rejects.toThrow(UnprovenTreeError)
    }
  })
})
