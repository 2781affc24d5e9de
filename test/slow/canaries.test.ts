// Secrets that can be recognised are sent to every kind of call, served and refused, and through faults of the database. Then they are looked for
// in what the server wrote, stored and answered, and in its memory. keeps-nothing.test.ts is the short form.
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { closeSync, openSync, readdirSync, readFileSync, readSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { openKeks, openLogKeys } from '../independent/stored.js'
import { freshDatabase } from '../support/database/database.js'
import { guardedDir } from '../support/run/guarded-dir.js'
import { connectTo, createTenantInProcess, runEaas, startEaas } from '../support/service/eaas-process.js'
import { heapOf, WITH_HEAP } from '../support/service/heap.js'
import { callsOf } from '../support/service/load.js'
import { send } from '../support/service/service.js'

/** How long a server rests before its memory is read: calls have ended and their connections are closed. */
const REST_MS = 10_000
const LATER_CALLS = 5_000
const CHUNK = 1 << 24

/** A secret in the forms in which it could stand somewhere. The end of its base64 depends on what follows. */
const spellings = (bytes: Buffer) => [
  bytes,
  Buffer.from(bytes.toString('utf16le')),
  ...(['hex', 'base64', 'base64url'] as const).map((form) =>
    Buffer.from(bytes.toString(form).slice(0, form === 'hex' ? undefined : -3)),
  ),
]
const text = (word: string) => Buffer.from(`${word}-${randomBytes(12).toString('hex')}`)

type Canaries = Record<string, Buffer[]>

/** Which canaries stand in some bytes. */
function found(canaries: Canaries, where: Buffer): string[] {
  return Object.entries(canaries).flatMap(([name, secrets]) =>
    secrets.some((secret) => spellings(secret).some((form) => where.includes(form))) ? [name] : [],
  )
}

/** Counts the canaries in the memory that a process can write to. */
function countInMemory(canaries: Canaries, pid: number): Record<string, number> {
  const counts: Record<string, number> = {}
  const memory = openSync(`/proc/${pid}/mem`, 'r')
  const longest = 128
  try {
    for (const [, from = '', to = ''] of readFileSync(`/proc/${pid}/maps`, 'utf8').matchAll(/^(\w+)-(\w+) rw/gm)) {
      const [start, end] = [Number.parseInt(from, 16), Number.parseInt(to, 16)]
      for (let at = start; at < end; at += CHUNK) {
        const chunk = Buffer.alloc(Math.min(CHUNK + longest, end - at))
        const read = readMapped(memory, chunk, at)
        for (const [name, secrets] of Object.entries(canaries)) {
          for (const form of secrets.flatMap(spellings)) {
            for (
              let hit = chunk.indexOf(form);
              hit >= 0 && hit < Math.min(CHUNK, read);
              hit = chunk.indexOf(form, hit + 1)
            ) {
              counts[name] = (counts[name] ?? 0) + 1
            }
          }
        }
      }
    }
  } finally {
    closeSync(memory)
  }
  return counts
}

/** Reads memory; none of a range that the process has just unmapped. */
function readMapped(memory: number, into: Buffer, at: number): number {
  try {
    return readSync(memory, into, 0, into.length, at)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EIO') return 0
    throw error
  }
}

it('keeps secrets out of what it writes, stores and answers, and lets go of them', async () => {
  const folder = guardedDir('eaas-canaries').path
  const secretFile = (name: string, content: string) => {
    writeFileSync(join(folder, name), content, { mode: 0o600 })
    return join(folder, name)
  }
  const rootKey = randomBytes(32)
  const password = text('password')
  const database = await freshDatabase('canaries', { migrated: true })
  const root = { EAAS_ROOT_KEY_FILE: secretFile('root-key', rootKey.toString('base64')) }
  const owner = { database, rootKey: rootKey.toString('base64') }
  const { tenant_id, api_key } = await createTenantInProcess(owner, 'acme')
  expect((await runEaas(['tenant', 'set', 'acme', '--envelope-only', 'false'], owner)).code).toBe(0)

  // In production the secrets are in files, and the server logs in with a password.
  let login: Record<string, string> = {}
  let wrongLogin: Record<string, string> = {}
  const role = `canary_${randomBytes(4).toString('hex')}`
  if (database.backend === 'postgres') {
    const sql = connectTo(database)
    await sql.unsafe(`create role ${role} login superuser password '${password}'`)
    await sql.end()
    const url = new URL(database.url)
    Object.assign(url, { username: role, password: String(password) })
    login = { EAAS_DATABASE_URL_FILE: secretFile('database-url', url.href) }
    url.port = '1'
    wrongLogin = { EAAS_DATABASE_URL_FILE: secretFile('wrong-url', url.href), EAAS_START_WAIT_SECONDS: '1' }
  }
  const options = {
    rootKey: null,
    ...(database.backend === 'embedded' ? { database } : {}),
    environment: { ...root, ...login, EAAS_LOG_LEVEL: 'debug', ...WITH_HEAP },
  }
  const log = join(folder, 'log')
  const eaas = await startEaas({ ...options, stderr: openSync(log, 'w') })
  const kept: string[] = []
  const call = callsOf(api_key.secret)
  const ask = async (method: string, path: string, body?: unknown) => {
    const answer = await call(eaas.url, method, path, body)
    if (answer.status >= 400) kept.push(JSON.stringify(answer.body))
    return answer.body
  }

  // Every kind of call, served.
  const deks = [randomBytes(32), randomBytes(32), randomBytes(32)]
  const [dek = '', batched = '', refused = ''] = deks.map((bytes) => bytes.toString('base64'))
  const [plaintext, bytes, value] = [text('plaintext'), text('bytes'), text('value')]
  const { key_id } = await ask('POST', '/v1/keys', { name: 'canaries' })
  const { wrapped_key } = await ask('POST', `/v1/keys/${key_id}/wrap`, { dek })
  const bound = { purpose: 'data', context: { row: '7' } }
  const used = await ask('POST', `/v1/keys/${key_id}/wrap`, { dek, ...bound })
  const bundle = await ask('POST', '/v1/encrypt', { key_id, plaintext: String(plaintext) })
  const binary = await ask('POST', '/v1/encrypt', { key_id, plaintext: bytes.toString('base64'), encoding: 'base64' })
  for (let round = 0; round < 50; round++) {
    await ask('POST', `/v1/keys/${key_id}/unwrap`, { wrapped_key })
    await ask('POST', `/v1/keys/${key_id}/unwrap`, { wrapped_key: used.wrapped_key, ...bound })
    await ask('POST', `/v1/keys/${key_id}/rewrap`, { wrapped_key })
    await ask('POST', '/v1/decrypt', bundle)
    await ask('POST', '/v1/decrypt', { ...binary, encoding: 'base64' })
    await ask('POST', '/v1/hash', { key_id, value: String(value) })
    const operations = [
      ...[
        { op: 'wrap', key_id, dek: batched },
        { op: 'unwrap', key_id, wrapped_key },
        { op: 'hash', key_id, value: String(value) },
      ],
      ...[
        { op: 'decrypt', ...bundle },
        { op: 'encrypt', key_id, plaintext: String(plaintext) },
        { op: 'rewrap', key_id, wrapped_key },
      ],
    ]
    await ask('POST', '/v1/batch', { operations })
  }
  const made = await ask('POST', '/v1/api-keys', { name: 'made', permissions: ['encrypt', 'keys:read'] })
  await ask('POST', `/v1/keys/${key_id}/rotate`)
  await ask('POST', `/v1/keys/${key_id}/export`)
  expect(kept).toEqual([])

  // Refused: each secret wherever a caller could put it by mistake.
  const secrets = [
    String(plaintext),
    dek,
    batched,
    refused,
    String(value),
    made.secret as string,
    String(password),
    rootKey.toString('base64'),
  ]
  for (const secret of secrets) {
    const inPath = encodeURIComponent(secret)
    await ask('POST', `/v1/keys/${inPath}/wrap`, { dek: refused })
    await ask('GET', `/v1/keys?name=x&${inPath}=1`)
    await ask('GET', `/v1/audit?actor=${inPath}&limit=${inPath}&date_from=${inPath}`)
    await ask('GET', `/v1/${inPath}`)
    await ask('PUT', `/v1/keys/${inPath}`)
    await ask('POST', '/v1/keys', { name: `\0${secret}` })
    await ask('POST', '/v1/keys', { [secret]: secret })
    await ask('POST', `/v1/keys/${key_id}/wrap`, { dek: `${secret}=`, purpose: secret, context: { [secret]: secret } })
    await ask('POST', `/v1/keys/${key_id}/unwrap`, {
      wrapped_key: `${wrapped_key.slice(0, -8)}AAAAAAAA`,
      purpose: 'data',
    })
    await ask('POST', `/v1/keys/${key_id}/destroy`, { confirm: secret })
    await ask('PATCH', `/v1/keys/${key_id}/rotation`, { interval_days: secret })
    await ask('POST', '/v1/encrypt', { key_id: secret, plaintext: secret, encoding: secret })
    await ask('POST', '/v1/decrypt', { ...bundle, ciphertext: Buffer.from(secret).toString('base64') })
    await ask('POST', '/v1/hash', { key_id: secret, value: secret })
    await ask('POST', '/v1/batch', { operations: [{ op: secret }, { op: 'wrap', key_id, dek: secret }] })
    await ask('POST', '/v1/api-keys', {
      name: secret,
      permissions: [secret],
      allowed_ips: [secret],
      expires_at: secret,
      keys: [secret],
    })
    const headers = {
      authorization: `Bearer ${secret}`,
      'content-type': 'application/json',
      traceparent: secret,
      'x-request-id': `${secret} ?`,
    }
    const malformed = { ...headers, authorization: `Bearer ${api_key.secret}` }
    for (const [path, sent, body] of [
      ['/v1/keys', headers, `{"name":"${secret}"}`],
      ['/v1/keys', malformed, `{"name":"${secret}"`],
      ['/v1/keys', malformed, `{"name":"${secret}${'x'.repeat(1 << 20)}"}`],
      [`/v1/keys?api_key=${inPath}`, { 'content-type': secret }, secret],
      [`/v1/${inPath}%E0%A4%A`, headers, undefined],
    ] as const)
      kept.push((await send(new URL(eaas.url), { method: 'POST', headers: sent, body }, { path })).body)
  }

  // Faults of the database: calls cannot be recorded.
  const admin = connectTo(database)
  await admin`alter table audit_log rename to taken_away`
  await ask('POST', `/v1/keys/${key_id}/wrap`, { dek })
  await ask('POST', '/v1/encrypt', { key_id, plaintext: String(plaintext) })
  await ask('POST', `/v1/keys/${key_id}/unwrap`, { wrapped_key })
  await ask('POST', '/v1/batch', { operations: [{ op: 'decrypt', ...bundle }] })
  await admin`alter table taken_away rename to audit_log`
  await admin.end()
  expect(kept.filter((body) => /"status":5/.test(body)).length).toBeGreaterThanOrEqual(3)

  // What a caller reads of it afterwards.
  const read = async (path: string) =>
    kept.push(
      (
        await send(new URL(eaas.url + path), {
          method: 'GET',
          headers: { authorization: `Bearer ${api_key.secret}` },
          body: undefined,
        })
      ).body,
    )
  for (const path of [
    '/v1/audit?limit=100',
    '/v1/audit/export',
    '/v1/keys',
    '/v1/api-keys',
    '/v1/usage',
    '/metrics',
    '/health',
  ])
    await read(path)

  const sql = connectTo(database)
  const keks = [...(await openKeks(sql, rootKey, tenant_id)).values()]
  const { auditKey } = await openLogKeys(sql, rootKey, tenant_id)
  await sql.end()
  const sent: Canaries = {
    'data keys': deks,
    plaintexts: [plaintext, bytes],
    'hashed values': [value],
    'API keys': [Buffer.from(api_key.secret), Buffer.from(made.secret)].map((whole) => whole.subarray(-43)),
  }
  // The server needs these until it ends.
  const held: Canaries = {
    'the root key': [rootKey],
    'key secrets': keks,
    'the audit key': [auditKey],
    ...(login.EAAS_DATABASE_URL_FILE ? { 'the password': [password] } : {}),
  }
  const all = { ...sent, ...held }

  // The control: each canary is found where it stands.
  expect(found(all, Buffer.concat(Object.values(all).map(([first]) => first as Buffer)))).toEqual(Object.keys(all))
  expect(
    found(
      all,
      Buffer.from(
        `x${Object.values(all)
          .map(([first]) => first?.toString('base64'))
          .join('|')}`,
      ),
    ),
  ).toEqual(Object.keys(all))
  expect(kept.length).toBeGreaterThan(150)
  expect(kept.flatMap((body) => found(all, Buffer.from(body)).map((name) => `${name}: ${body.slice(0, 300)}`))).toEqual(
    [],
  )

  await sleep(REST_MS)
  const inHeap = [found(all, await heapOf(eaas))]
  const inMemory = [countInMemory(all, eaas.pid)]
  for (let at = 0; at < LATER_CALLS; at++) await ask('POST', '/v1/encrypt', { key_id, plaintext: 'another one' })
  await sleep(REST_MS)
  inHeap.push(found(all, await heapOf(eaas)))
  inMemory.push(countInMemory(all, eaas.pid))
  console.log(`canaries: in the heap ${JSON.stringify(inHeap)}; copies in memory ${JSON.stringify(inMemory)}`)

  // What it wrote: its log, its database, and what commands say of a database that does not answer.
  const { stdout, code } = await eaas.stop()
  const stderr = readFileSync(log, 'utf8')
  expect(code).toBe(0)
  expect(stderr).toContain('"msg":"request"')
  expect(found(all, Buffer.from(stdout + stderr))).toEqual([])
  if (database.backend === 'postgres') {
    const dump = execFileSync('pg_dump', ['--inserts', database.directUrl], { maxBuffer: 1 << 30 })
    expect(dump.includes('canaries')).toBe(true)
    expect(found(all, dump)).toEqual([])
    for (const command of [['start'], ['doctor'], ['tenant', 'list'], ['migrate']]) {
      const ended = await runEaas(command, { rootKey: null, environment: { ...root, ...wrongLogin } })
      expect(ended.code).not.toBe(0)
      expect(found(all, Buffer.from(ended.stdout + ended.stderr))).toEqual([])
    }
  } else {
    const files = readdirSync(database.dataDir, { recursive: true, withFileTypes: true }).filter((file) =>
      file.isFile(),
    )
    const contents = files.map((file) => readFileSync(join(file.parentPath, file.name)))
    expect(contents.some((content) => content.includes('canaries'))).toBe(true)
    expect(contents.flatMap((content, at) => found(all, content).map((name) => `${name}: ${files[at]?.name}`))).toEqual(
      [],
    )
  }
  expect(inHeap.flat().filter((name) => name in sent)).toEqual([])
})
