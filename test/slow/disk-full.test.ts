// A disk that fills up under the database: calls fail and say so, nothing that was acknowledged is lost, and all goes on by itself once
// there is room again. The disk is a small tmpfs, which takes the right to mount one.
import { spawnSync } from 'node:child_process'
import { closeSync, mkdirSync, mkdtempSync, openSync, rmSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { backend, type TestDatabase } from '../support/database/database.js'
import { findPostgres } from '../support/database/find-postgres.js'
import { startPostgres } from '../support/database/postgres.js'
import { createTenantInProcess, type EaasProcess, startEaas } from '../support/service/eaas-process.js'

const SIZE = '300m'
/** A page of the log's table takes some twenty entries, so the next one is wanted soon. */
const MOST_CALLS = 5_000
const SOON = { timeout: 60_000, interval: 200 }
const DEK = Buffer.alloc(32, 1).toString('base64')

it('fails calls, degrades health, loses nothing, and serves again once there is room', async ({ skip }) => {
  const disk = mkdtempSync(join(tmpdir(), 'eaas-disk-full-'))
  const mounted = spawnSync('mount', ['-t', 'tmpfs', '-o', `size=${SIZE},mode=0777`, 'tmpfs', disk], {
    encoding: 'utf8',
  })
  if (mounted.status !== 0) {
    rmSync(disk, { recursive: true })
    skip(`a tmpfs cannot be mounted here: ${mounted.error?.message ?? mounted.stderr.trim()}`)
  }
  onTestFinished(() => {
    spawnSync('umount', ['--lazy', disk])
    rmSync(disk, { recursive: true })
  })
  const database = await databaseOn(disk)
  const eaas = await startEaas({ database })
  onTestFinished(async () => void (await eaas.stop()))
  const { api_key } = await createTenantInProcess({ database }, 'acme')
  const call = caller(eaas, api_key.secret)
  const { key_id } = (await call('POST', '/v1/keys', { name: 'users' })).body
  const wrap = () => call('POST', `/v1/keys/${key_id}/wrap`, { dek: DEK })
  expect((await wrap()).status).toBe(200)
  let acknowledged = 1

  const filler = join(disk, 'filler')
  fill(filler)
  let failed = await wrap()
  for (let calls = 0; failed.status === 200 && calls < MOST_CALLS; calls++) {
    acknowledged += 1
    failed = await wrap()
  }
  expect(failed.body).toMatchObject({ code: expect.stringMatching(/^E_(AUDIT_NOT_WRITTEN|UNAVAILABLE)$/) })
  expect([500, 503]).toContain(failed.status)
  expect(failed.body).not.toHaveProperty('wrapped_key')
  const health = () => call('GET', '/health').then(({ status }) => status)
  await expect.poll(health, SOON).toBe(503)
  let unknown = 1

  rmSync(filler)
  await expect
    .poll(async () => {
      const { status } = await wrap()
      if (status === 200) acknowledged += 1
      else unknown += 1
      return status
    }, SOON)
    .toBe(200)
  await expect.poll(health, SOON).toBe(200)
  expect((await call('GET', '/v1/audit/verify')).body).toMatchObject({ valid: true })
  const { body } = await call('GET', '/v1/usage')
  const written = body.operations['key.wrap']
  expect(written).toBeGreaterThanOrEqual(acknowledged)
  expect(written).toBeLessThanOrEqual(acknowledged + unknown)
  await eaas.stop()
  await eaas.start()
  expect((await call('GET', '/v1/audit/verify')).body).toMatchObject({ valid: true })
})

async function databaseOn(disk: string): Promise<TestDatabase> {
  if (backend() === 'embedded') {
    const dataDir = join(disk, 'data')
    mkdirSync(dataDir)
    return { backend: 'embedded', dataDir, drop: async () => undefined }
  }
  const bin = findPostgres()
  if (bin === undefined) throw new Error('the project postgres runs where there is one')
  const settings = { min_wal_size: '32MB', max_wal_size: '32MB' }
  const server = await startPostgres({ bin, parentDir: disk, settings })
  onTestFinished(() => server.remove())
  const url = await server.createDatabase('disk_full')
  return { backend: 'postgres', url, directUrl: url, drop: async () => undefined }
}

function caller(eaas: EaasProcess, secret: string) {
  return async (method: string, path: string, body?: object) => {
    const response = await fetch(eaas.url + path, {
      method,
      headers: { authorization: `Bearer ${secret}`, ...(body && { 'content-type': 'application/json' }) },
      ...(body && { body: JSON.stringify(body) }),
    })
    return { status: response.status, body: await response.json() }
  }
}

/** Takes all the room that is left, to the last page. */
function fill(file: string): void {
  const fd = openSync(file, 'w')
  for (let size = 1_048_576; size >= 4_096; ) {
    try {
      writeSync(fd, Buffer.alloc(size))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
      size /= 2
    }
  }
  closeSync(fd)
}
