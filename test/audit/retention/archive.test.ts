// The archive that a purge writes before it deletes entries.
import { mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, expect, it } from 'vitest'
import { entryHash, genesisHash } from '../../../packages/audit/src/formats/chain.js'
import { encodePublicKey } from '../../../packages/audit/src/formats/checkpoint.js'
import { entryLine, headerLine, trailerLine } from '../../../packages/audit/src/formats/export.js'
import { signStretch } from '../../../packages/audit/src/formats/stretch.js'
import { splitLines } from '../../../packages/audit/src/verify/split-lines.js'
import { verifyExport } from '../../../packages/audit/src/verify/verify-export.js'
import { exportAudit } from '../../../packages/server/src/core/api/audit-export.js'
import { performAsSystem } from '../../../packages/server/src/core/runner/perform.js'
import { findHead, readChain } from '../../../packages/server/src/core/store/audit.js'
import { archiveEntries } from '../../../packages/server/src/operate/jobs/archive-entries.js'
import { purgeTenant } from '../../../packages/server/src/operate/jobs/purge-tenants.js'
import { exchangeEntry } from '../../support/audit/exchanged-entry.js'
import { runAuditCommand, runCommand } from '../../support/service/command-host.js'
import { ROOT_KEY } from '../../support/service/service.js'
import { shellOf } from '../../support/sources/server-docs.js'
import {
  archiveName,
  clock,
  DAY_MS,
  folder,
  history,
  OLD,
  owner,
  PRESENT,
  purge,
  RETENTION,
  rowsLeft,
  service,
  stored,
  tenant_id,
  useLog,
} from './scene.js'

useLog()

/** The entries that a purge takes, as they are in the database. */
async function readOld() {
  const old = await readChain(service.services.sql, { tenant_id, after_id: 0, through_id: OLD, limit: OLD })
  const hash = old.at(-1)?.hash ?? new Uint8Array()
  return { old, stretch: { tenant_id, after_id: 0, through_id: OLD, hash } }
}

/** The archive of another history: a server signed it, but one of its entries is not the one that is in the database. */
async function archiveOfOthers(): Promise<string> {
  const { sql, signingKey } = service.services
  const [{ old }, head] = [await readOld(), await findHead(sql, tenant_id)]
  let hash = genesisHash(tenant_id)
  const others = old.map((entry) => {
    const other = entry.id === 5 ? { ...entry, ip_address: '203.0.113.9' } : entry
    hash = entryHash(hash, other)
    return { ...other, hash }
  })
  if (!head) throw new Error('the tenant should have a head')
  const statement = { tenant_id, last_id: OLD, hash, head_id: head.last_id, head_hash: head.hash }
  const stretch = signStretch(signingKey, { ...statement, created_at: new Date(PRESENT).toISOString() })
  const header = headerLine({ tenant_id, after_id: 0, after_hash: genesisHash(tenant_id), key_changes: [] })
  const trailer = trailerLine({ stretch, public_key: encodePublicKey(signingKey) })
  return [header, ...others.map(entryLine), trailer].join('')
}

describe('an archive', () => {
  it('has exactly the purged entries, verifies offline, and the log that is left continues it', async () => {
    const archiveDir = join(folder, 'archive')
    await purge({ archiveDir })
    clock.now = PRESENT + 300 * DAY_MS
    const { purged_through } = await purge({ archiveDir })
    const names = [`${tenant_id}-through-${OLD}.ndjson`, `${tenant_id}-through-${purged_through}.ndjson`]
    expect((await readdir(archiveDir)).sort()).toEqual([...names].sort())
    const { public_key: publicKey } = (await owner.call('GET', '/v1/audit/checkpoint')).body
    let end: string | undefined
    for (const [name, after_id, last_id, missing] of [
      [names[0], 0, OLD, ['end']],
      [names[1], OLD, purged_through, ['beginning', 'end']],
    ] as const) {
      const file = await readFile(join(archiveDir, name ?? ''))
      const verdict = await verifyExport(splitLines([file]), { publicKey })
      expect(verdict).toMatchObject({ valid: true, missing, after_id, last_id, verified_entries: last_id - after_id })
      const lines = file.toString().split('\n')
      const ids = lines.slice(1, -2).map((line) => JSON.parse(line).id)
      expect(ids).toEqual(Array.from({ length: last_id - after_id }, (_, at) => after_id + 1 + at))
      expect(JSON.parse(lines[0] ?? '')).toMatchObject({ after_id, ...(end && { after_hash: end }) })
      end = JSON.parse(lines.at(-3) ?? '').hash
    }
    const body = Buffer.from((await owner.call('GET', '/v1/audit/export')).body as string)
    expect(await verifyExport(splitLines([body]), { publicKey })).toMatchObject({ valid: true, whole: true })
    expect(JSON.parse(body.toString().split('\n')[0] ?? '')).toMatchObject({
      after_id: purged_through,
      after_hash: end,
    })
  })

  it('is joined with the others and the log that is left, as the guide says, to one export that verifies', async () => {
    const archiveDir = join(folder, 'joined')
    await purge({ archiveDir })
    clock.now = PRESENT + 300 * DAY_MS
    const { purged_through } = await purge({ archiveDir })
    const archives = [OLD, purged_through].map((id) => `${tenant_id}-through-${id}.ndjson`)
    const eaas = (...args: string[]) => runCommand(args, { database: service.database, rootKey: ROOT_KEY })
    const today = join(archiveDir, 'today.ndjson')
    expect((await eaas('audit', 'export', '--tenant', tenant_id, '--out', today)).code).toBe(0)
    const publicKey = (await eaas('audit', 'public-key')).stdout.trim()
    const verdictOfJoined = async (files: string[]) => {
      const [, command = ''] = shellOf('retention.md', 'today.ndjson --public-key')
      const [, , name = '', ...given] = command.split(' ')
      expect([name, given.slice(2)]).toEqual(['verify', ['today.ndjson', '--public-key', 'eaas-audit+…']])
      const paths = files.map((file) => join(archiveDir, file))
      const { code, stdout } = await runAuditCommand([name, ...paths, '--public-key', publicKey, '--json'])
      return { code, ...JSON.parse(stdout) }
    }
    expect(await verdictOfJoined([...archives, 'today.ndjson'])).toMatchObject({ code: 0, after_id: 0, whole: true })
    expect(await verdictOfJoined([archives[0] ?? '', 'today.ndjson'])).toMatchObject({
      code: 1,
      reason: `entry ${OLD + 1} is missing`,
    })
    await rm(today)
    const all = await runAuditCommand(['verify-archive', archiveDir, '--public-key', publicKey])
    expect([all.code, all.stdout]).toEqual([
      0,
      expect.stringMatching(new RegExp(`${tenant_id}  2 .* 1 to ${purged_through} .* valid`)),
    ])
    const alone = await runAuditCommand(['verify', join(archiveDir, archives[1] ?? ''), '--public-key', publicKey])
    expect([alone.code, alone.stdout]).toEqual([
      4,
      expect.stringContaining(`entries before ${OLD + 1} are missing from the export, and no purge in the file`),
    ])
  })

  it('has every entry that is purged, however long it takes to write', async () => {
    const archiveDir = join(folder, 'slow')
    // By the time that the archive is written, everything else has become too old as well.
    clock.now = Date.parse(history[39]?.created_at ?? '') + 366 * DAY_MS
    let time = clock.now
    const ticking = { ...service.services, now: () => (time += 10 * DAY_MS), databaseNow: async () => time }
    const { purged_through } = await purgeTenant(ticking, tenant_id, { ...RETENTION, archiveDir })
    expect(await readdir(archiveDir)).toEqual([`${tenant_id}-through-${purged_through}.ndjson`])
    expect((await rowsLeft())[0]).toBe(purged_through + 1)
  })

  it('is written once and complete when several purge at once', async () => {
    const archiveDir = join(folder, 'at-once')
    const plans = await Promise.all([1, 2, 3].map(() => purge({ archiveDir })))
    expect(plans.map(({ entries }) => entries).sort()).toEqual([0, 0, OLD])
    expect(await readdir(archiveDir)).toEqual([archiveName()])
    const file = await readFile(join(archiveDir, archiveName()))
    expect(await verifyExport(splitLines([file]))).toMatchObject({ valid: true, missing: ['end'], last_id: OLD })
    expect((await rowsLeft())[0]).toBe(OLD + 1)
  })

  it('that an earlier run wrote before it crashed is used unchanged', async () => {
    const archiveDir = join(folder, 'earlier')
    await archiveEntries(service.services, (await readOld()).stretch, archiveDir)
    const before = await readFile(join(archiveDir, archiveName()))
    clock.now += 1_000
    expect(await purge({ archiveDir })).toMatchObject({ entries: OLD })
    expect(await readFile(join(archiveDir, archiveName()))).toEqual(before)
  })

  it.each([
    ['foreign', 'something else\n'],
    ['cut', undefined],
  ])('never overwrites a file that is not an archive: %s', async (name, content) => {
    const archiveDir = join(folder, name)
    await archiveEntries(service.services, (await readOld()).stretch, archiveDir)
    const path = join(archiveDir, archiveName())
    const kept = content ?? (await readFile(path, 'utf8')).slice(0, -300)
    await writeFile(path, kept)
    const before = await stored()
    await expect(purge({ archiveDir })).rejects.toMatchObject({
      code: 'E_STATE',
      message: expect.stringContaining(path),
    })
    expect(await readFile(path, 'utf8')).toBe(kept)
    expect(await readdir(archiveDir)).toEqual([archiveName()])
    expect(await stored()).toEqual(before)
  })

  it('is refused if the file has fewer entries than will be purged', async () => {
    const archiveDir = join(folder, 'fewer')
    await mkdir(archiveDir)
    const { body } = await owner.call('GET', `/v1/audit/export?after_id=5&through_id=${OLD}`)
    await writeFile(join(archiveDir, archiveName()), body as string)
    const before = await stored()
    await expect(purge({ archiveDir })).rejects.toMatchObject({ code: 'E_STATE' })
    expect(await stored()).toEqual(before)
  })

  it('is refused if it has other entries than the log, although a server signed them', async () => {
    const archiveDir = join(folder, 'others')
    await mkdir(archiveDir)
    await writeFile(join(archiveDir, archiveName()), await archiveOfOthers())
    const before = await stored()
    await expect(purge({ archiveDir })).rejects.toThrow('its entries are not those that were verified')
    expect(await stored()).toEqual(before)
  })

  it('is not kept if other entries were exported than those that were verified', async () => {
    const archiveDir = join(folder, 'exchanged')
    const stretch = { ...(await readOld()).stretch, hash: new Uint8Array(32) }
    await expect(archiveEntries(service.services, stretch, archiveDir)).rejects.toThrow('not those that were verified')
    expect(await readdir(archiveDir)).toEqual([])
  })

  it('is set aside, and nothing is purged, if the log was verified with other entries before the marks', async () => {
    const archiveDir = join(folder, 'aside')
    let verifications = 0
    const verifyLog: typeof service.services.verifyLog = (options) => {
      verifications += 1
      if (verifications === 1) return service.services.verifyLog(options)
      const noted = new Map([[OLD, new Uint8Array(32)]])
      return service.services.verifyLog({ ...options, onValid: (valid) => options.onValid?.({ ...valid, noted }) })
    }
    const exchanged = { ...service.services, verifyLog }
    await expect(purgeTenant(exchanged, tenant_id, { ...RETENTION, archiveDir })).rejects.toMatchObject({
      code: 'E_STATE',
      message: expect.stringContaining(`entry ${OLD} was another one when the purge was planned`),
    })
    expect(await readdir(archiveDir)).toEqual([expect.stringMatching(/\.refused$/)])
    expect(await stored()).toMatchObject({ marks: [], rows: expect.arrayContaining([1, OLD]) })
  })

  it('is signed only if its last entry leads to the head: a genuine one of another history does not', async () => {
    const { services } = service
    const state = await services.states.find(tenant_id)
    if (!state) throw new Error('the tenant should have a state')
    const part = async () => text(await performAsSystem(services, tenant_id, exportAudit({ through_id: OLD })))
    const putBack = await exchangeEntry(services.sql, { tenant_id, id: OLD, auditKey: state.auditKey })
    await expect(part()).rejects.toThrow(
      `entry ${OLD + 1} of the audit log of tenant ${tenant_id} is not as the server`,
    )
    await putBack()
    expect(await part()).toContain('eaas/audit/stretch/v1')
  })

  it('is not written for a log that does not verify, and nothing is purged', async () => {
    const archiveDir = join(folder, 'unverified')
    const { sql } = service.services
    await sql`update audit_log set actor = 'x' where tenant_id = ${tenant_id} and id = 5`
    const before = await stored()
    await expect(purge({ archiveDir })).rejects.toMatchObject({
      code: 'E_STATE',
      message: expect.stringContaining('entry_altered, entry 5'),
    })
    await expect(readdir(archiveDir)).rejects.toThrow('ENOENT')
    expect(await stored()).toEqual(before)
  })

  it("leaves the log unchanged if it can't be written", async () => {
    const before = await stored()
    await expect(purge({ archiveDir: '/dev/null/nowhere' })).rejects.toThrow('ENOTDIR')
    expect(await stored()).toEqual(before)
  })

  it('is not kept if an entry was altered while it was written, and nothing is purged', async () => {
    const archiveDir = join(folder, 'altered')
    const { stretch } = await readOld()
    const { sql } = service.services
    await sql`update audit_log set actor = 'x' where tenant_id = ${tenant_id} and id = 5`
    await expect(archiveEntries(service.services, stretch, archiveDir)).rejects.toMatchObject({
      code: 'E_STATE',
      message: expect.stringContaining('entry 5 was altered'),
    })
    expect(await readdir(archiveDir)).toEqual([])
  })
})
