// What each release left behind, in test/fixtures/released: this version opens its database and its backup, answers as the release did, and
// verifies and goes on with its logs. Never edit what is there: a change that fails here fails on users' data.
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createClient } from '../../packages/sdk/src/index.js'
import { openExport } from '../../packages/sdk/src/offline.js'
import { version } from '../../packages/server/package.json'
import { backend, freshDatabase, type TestDatabase } from '../support/database/database.js'
import { RELEASED } from '../support/database/migrations.js'
import { runAuditCommand, runCommand, runDoctor } from '../support/service/command-host.js'
import { asOwner, type EaasProcess, startEaas } from '../support/service/eaas-process.js'
import { callsOf } from '../support/service/load.js'
import { FILES, type FrozenState, formsOf, freezeState } from './released-state.js'

const isFreezing = process.env.EAAS_TEST_FREEZE === '1'
const releases = isFreezing ? [] : readdirSync(RELEASED)

let work: string
beforeAll(() => {
  work = mkdtempSync(join(tmpdir(), 'eaas-released-'))
})
afterAll(() => rmSync(work, { recursive: true }))

it.runIf(isFreezing)(`freezes the state of ${version}`, { timeout: 600_000 }, () => freezeState(version))

describe.each(releases)('the state of %s', { timeout: 300_000 }, (release) => {
  const unzipped = (name: string) => gunzipSync(readFileSync(join(RELEASED, release, backend(), name)))
  const state: FrozenState = JSON.parse(readFileSync(join(RELEASED, release, backend(), 'state.json'), 'utf8'))
  const options = (database: TestDatabase) => ({ database, rootKey: state.root_key })

  it('is all there in its database, which is migrated once', async () => {
    const database = await freshDatabase('released', { created: false })
    await fillWith(database, unzipped(FILES[database.backend]))
    for (const _ of ['the start that may migrate', 'the next one']) await expectAnswers(database)
    await expectLogs(database)
  })

  it('is all there in its backup', async () => {
    const path = join(work, `${release}.backup`)
    writeFileSync(path, unzipped(FILES.backup))
    const database = await freshDatabase('restored')
    const { code, stderr } = await runCommand(['restore', path], options(database))
    expect([code, stderr]).toEqual([0, ''])
    await expectAnswers(database)
    await expectLogs(database)
  })

  async function expectAnswers(database: TestDatabase): Promise<void> {
    const server = await startEaas({ ...options(database), environment: { EAAS_CHECKPOINT_FILE: 'none' } })
    try {
      for (const { secret, method, path, body, status, answer } of state.calls) {
        const found = await callsOf(secret)(server.url, method, path, body)
        expect([method, path, found.status, found.body]).toEqual([method, path, status, answered(answer)])
      }
      for (const tenant of state.tenants) await expectValues(server, tenant)
    } finally {
      expect((await server.stop()).code).toBe(0)
    }
  }

  async function expectValues({ url }: EaasProcess, tenant: FrozenState['tenants'][number]): Promise<void> {
    const { secret, key_id, stored, exported } = tenant
    const client = createClient({ baseUrl: url, apiKey: secret })
    const { blind_hash_public_key: publicKey } = (await callsOf(secret)(url, 'GET', `/v1/keys/${key_id}`)).body
    const forms = formsOf(client, key_id, `${publicKey}`)
    for (const [name, value] of Object.entries(stored)) {
      expect([name, await forms[name]?.read(value)]).toEqual([name, forms[name]?.expected])
    }
    const opened = openExport(exported)
    for (const name of ['v1', 'v2'])
      expect(await opened.decryptText(stored[name] as string)).toBe(forms[name]?.expected)
    opened.close()
    client.close()
  }

  async function expectLogs(database: TestDatabase): Promise<void> {
    const [checkpoint, key] = [join(work, 'checkpoint'), join(work, 'key')]
    writeFileSync(checkpoint, state.checkpoint)
    const all = await runCommand(['audit', 'verify', '--all', '--checkpoint', checkpoint], options(database))
    expect([all.code, all.stdout]).toEqual([
      0,
      expect.stringMatching(/^All logs are valid\.\n[\s\S]*^checkpoint {2}agrees/m),
    ])
    const { found } = await runDoctor(options(database))
    expect([found('schema'), found('tables')]).toMatchObject([{ ok: true }, { ok: true }])
    for (const { tenant_id, exports } of state.tenants) {
      const files = exports.map((_, at) => join(work, `${tenant_id}-${at}.ndjson`))
      for (const [at, { text, public_key }] of exports.entries()) {
        writeFileSync(files[at] ?? '', text)
        const alone = await runAuditCommand(['verify', files[at] ?? '', '--public-key', public_key])
        expect([alone.code, alone.stdout]).toEqual([
          expect.toBeOneOf([0, PART]),
          expect.stringMatching(/^The export is valid/),
        ])
      }
      const now = join(work, `${tenant_id}-now.ndjson`)
      rmSync(now, { force: true })
      expect((await runCommand(['audit', 'export', '--tenant', tenant_id, '--out', now], options(database))).code).toBe(
        0,
      )
      writeFileSync(key, state.public_key)
      const joined = await runAuditCommand(['verify', ...files, now, '--public-key', key, '--json'])
      expect([joined.code, JSON.parse(joined.stdout)]).toMatchObject([0, { valid: true, whole: true }])
    }
  }
})

/** The exit code of an export that is valid, but a part of its log. */
const PART = 4

/** An answer that may have more members than the release gave. */
function answered(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(answered)
  if (typeof value !== 'object' || value === null) return value
  return expect.objectContaining(Object.fromEntries(Object.entries(value).map(([name, one]) => [name, answered(one)])))
}

/** Fills an empty database with what `dump` of released-state.ts wrote. */
async function fillWith(database: TestDatabase, bytes: Uint8Array): Promise<void> {
  if (database.backend === 'postgres')
    return void (await asOwner(database, (sql) => sql.unsafe(`${Buffer.from(bytes)}`)))
  mkdirSync(database.dataDir, { recursive: true })
  execFileSync('tar', ['-C', database.dataDir, '-xf', '-'], { input: bytes })
}
