// The reader of transit's ciphertexts against a real OpenBao: one call a value and batches, versions of a key, refusals, a seal, a rate limit.
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { backfill, type Reader, type TransitPost, transitReader } from '../../packages/cli/src/backfill.js'
import { createMemoryTable, migrateValues } from '../../packages/cli/src/test-support/memory-table.js'
import { type Client, createClient, text } from '../../packages/sdk/src/index.js'
import { failure } from '../../packages/sdk/src/test-support/clients.js'
import { createTestService } from '../../packages/sdk/src/testing.js'
import { findOrInstallOpenbao } from '../support/openbao/find-openbao.js'
import { type Openbao, startOpenbao } from '../support/openbao/openbao.js'
import { createTransit } from '../support/openbao/transit.js'

const program = findOrInstallOpenbao()

let bao: Openbao
let eaas: Client
let keyId: string
beforeAll(async () => {
  if (program === undefined) return
  bao = await startOpenbao({ program })
  eaas = createClient(createTestService())
  keyId = (await eaas.keys.create({ name: 'people' })).id
})
afterAll(async () => {
  eaas?.close()
  await bao?.remove()
})

/** Sends as an application does, and counts. */
function poster(token = bao.token) {
  const sent: number[] = []
  const post: TransitPost = async (path, body) => {
    sent.push(JSON.parse(body).batch_input?.length)
    const headers = { 'X-Vault-Token': token }
    const answer = await fetch(bao.url + path, { method: 'POST', body, headers })
    return { status: answer.status, body: await answer.json() }
  }
  return { post, sent }
}

const base64 = (plaintext: string) => Buffer.from(plaintext).toString('base64')

/** Has the engine encrypt, in one request. */
async function encrypt(key: string, plaintexts: readonly string[], more: object = {}): Promise<string[]> {
  const batch_input = plaintexts.map((plaintext) => ({ plaintext: base64(plaintext), ...more }))
  const { status, body } = await bao.send('POST', `transit/encrypt/${key}`, { batch_input })
  expect(status).toBe(200)
  return body.data.batch_results.map(({ ciphertext }: { ciphertext: string }) => ciphertext)
}

const people = (count: number) => Array.from({ length: count }, (_, at) => `person${at}@example.org`)
const migrate = (values: readonly unknown[], read: Reader) => migrateValues(eaas, keyId, values, read)

describe.skipIf(program === undefined)('transitReader, with OpenBao', () => {
  it('sends one call for a value that is read alone', async () => {
    const plaintexts = ['ada@example.org', '', '\u00e9\u{1f600} \u0000 x', 'y'.repeat(70_000)]
    const stored = await encrypt('alone', plaintexts)
    const { post, sent } = poster()
    const read = transitReader({ post, key: 'alone' })
    for (const [at, one] of stored.entries()) expect(await read(one, {})).toBe(plaintexts[at])
    expect(sent).toEqual([1, 1, 1, 1])
  })

  it('has the values of a page decrypted in batches of 200', async () => {
    const plaintexts = people(450)
    const stored = await encrypt('batches', plaintexts)
    const { post, sent } = poster()
    const fields = { email: text() }
    const model = eaas.model({ name: 'users', keyId, bind: ['id'], format: 'text', fields })
    const table = createMemoryTable(
      stored.map((email, at) => ({ id: String(1_000 + at), email })),
      ['email'],
    )
    const read = { email: transitReader({ post, key: 'batches' }) }
    expect(await backfill(model, table, { read, batchSize: 450 })).toMatchObject({ changed: 450, failed: 0 })
    expect(sent).toEqual([200, 200, 50])
    const { ok } = await model.decryptMany([...table.rows.values()] as never[])
    expect(ok.map(({ email }) => email)).toEqual(plaintexts)
  })

  it('reads every version of a key that may still be decrypted, and fails the rows of the others', async () => {
    const stored: string[] = []
    for (const plaintext of people(3)) {
      stored.push(...(await encrypt('versions', [plaintext])))
      await bao.send('POST', 'transit/keys/versions/rotate')
    }
    expect(stored.map((one) => one.slice(0, 9))).toEqual(['vault:v1:', 'vault:v2:', 'vault:v3:'])
    const read = transitReader({ post: poster().post, key: 'versions' })
    expect((await migrate(stored, read)).emails).toEqual(people(3))
    await bao.send('POST', 'transit/keys/versions/config', { min_decryption_version: 2 })
    const { report, emails, table } = await migrate(stored, read)
    expect([report.changed, emails]).toEqual([2, people(3).slice(1)])
    expect(report.failures).toMatchObject([
      { key: 'u0000', field: 'email', message: expect.stringContaining('Check the key, its versions') },
    ])
    expect(table.rows.get('u0000')?.email).toBe(stored[0])
  })

  it('fails the rows of another key or context, and ends the run where there is no such key', async () => {
    const stored = await encrypt('right', ['ada@example.org'])
    await encrypt('other', ['x'])
    const { report, table } = await migrate(stored, transitReader({ post: poster().post, key: 'other' }))
    expect(report).toMatchObject({ changed: 0, failed: 1, failures: [{ code: 'E_CONTENT' }] })
    expect(table.rows.get('u0000')?.email).toBe(stored[0])
    const unknown = await failure(migrate(stored, transitReader({ post: poster().post, key: 'nobody' })))
    expect([unknown.code, unknown.message]).toEqual(['E_NETWORK', 'transit answered 400 without results'])

    await bao.send('POST', 'transit/keys/derived', { derived: true })
    const derived = await encrypt('derived', ['grace@example.org'], { context: base64('people') })
    const readDerived = (context: string) =>
      transitReader({ post: poster().post, key: 'derived', context: base64(context) })
    expect((await migrate(derived, readDerived('people'))).emails).toEqual(['grace@example.org'])
    expect((await migrate(derived, readDerived('others'))).report).toMatchObject({ changed: 0, failed: 1 })

    const byRow = await Promise.all(
      ['u0000', 'u0001'].map((id) => encrypt('derived', [`${id}@example.org`], { context: base64(id) })),
    )
    const readOfRow = transitReader({ post: poster().post, key: 'derived', context: (row) => base64(String(row.id)) })
    expect((await migrate(byRow.flat(), readOfRow)).emails).toEqual(['u0000@example.org', 'u0001@example.org'])
    expect((await migrate(byRow.reverse().flat(), readOfRow)).report).toMatchObject({ changed: 0, failed: 2 })
  })

  it('needs no more than update on the path of the key, and ends the run without it', async () => {
    const stored = await encrypt('policied', people(2))
    const tokenFor = async (name: string, path: string) => {
      await bao.send('PUT', `sys/policies/acl/${name}`, { policy: `path "${path}" { capabilities = ["update"] }` })
      return (await bao.send('POST', 'auth/token/create', { policies: [name] })).body.auth.client_token as string
    }
    const allowed = await tokenFor('reader', 'transit/decrypt/policied')
    const read = transitReader({ post: poster(allowed).post, key: 'policied' })
    expect((await migrate(stored, read)).emails).toEqual(people(2))
    const refused = await tokenFor('stranger', 'transit/decrypt/another')
    const error = await failure(migrate(stored, transitReader({ post: poster(refused).post, key: 'policied' })))
    expect([error.code, error.message]).toEqual(['E_NETWORK', 'transit answered 403 without results'])
    expect(JSON.stringify(error)).not.toContain(refused)
  })

  it('ends the run where OpenBao is sealed, or limits the rate; a later run does the rest', async () => {
    const plaintexts = people(12)
    const stored = await encrypt('stopped', plaintexts)
    const { post, sent } = poster()
    const fields = { email: text() }
    const model = eaas.model({ name: 'users', keyId, bind: ['id'], format: 'text', fields })
    const table = createMemoryTable(
      stored.map((email, at) => ({ id: `u${10 + at}`, email })),
      ['email'],
    )
    let after: string | undefined
    const onProgress = (progress: { after: string | undefined }) => {
      after = progress.after
    }
    const run = () =>
      backfill(model, table, {
        read: { email: transitReader({ post, key: 'stopped' }) },
        batchSize: 4,
        after,
        onProgress,
      })
    const sealed = () => [...table.rows.values()].filter(({ email }) => String(email).startsWith('eaas.')).length

    await bao.seal()
    const onSeal = await failure(run())
    expect([onSeal.code, onSeal.message, sealed()]).toEqual(['E_NETWORK', 'transit answered 503 without results', 0])
    await bao.unseal()

    const quota = 'sys/quotas/rate-limit/one-a-minute'
    expect((await bao.send('POST', quota, { rate: 1, interval: '1m', path: 'transit/' })).status).toBeLessThan(300)
    const onLimit = await failure(run())
    expect([onLimit.code, onLimit.message]).toEqual(['E_NETWORK', 'transit answered 429 without results'])
    expect([sealed(), after]).toEqual([4, 'u13'])
    await bao.send('DELETE', quota)

    const before = sent.length
    expect(await run()).toMatchObject({ changed: 8, failed: 0 })
    expect(sent.slice(before)).toEqual([4, 4])
    const { ok } = await model.decryptMany([...table.rows.values()] as never[])
    expect(ok.map(({ email }) => email)).toEqual(plaintexts)
  })

  it('is answered as the transit engine in memory answers, which other tests use', async () => {
    const fake = createTransit()
    const real = poster()
    /** What both answer to the same requests, without the ciphertexts. */
    const converse = async (post: TransitPost) => {
      const outcomes: unknown[] = []
      const call = async (path: string, body: object) => {
        const { status, body: answered } = await post(`/v1/transit/${path}`, JSON.stringify(body))
        const { data, errors } = answered as { data?: Record<string, unknown>; errors?: string[] }
        const results = (data?.batch_results ?? (data ? [data] : [])) as Record<string, string | undefined>[]
        const shown = results.map(({ plaintext, ciphertext, key_version, error }) =>
          error ? { error } : { plaintext, key_version, ciphertext: ciphertext?.replace(/:[^:]*$/, '') },
        )
        outcomes.push({ path, status, errors, shown: path.startsWith('keys') ? undefined : shown })
        return results.map(({ ciphertext }) => ciphertext ?? '')
      }
      await call('decrypt/twin', { batch_input: [{ ciphertext: 'vault:v1:AAAA' }] }) // no such key
      const [first = ''] = await call('encrypt/twin', { plaintext: base64('a') })
      await call('keys/twin/rotate', {})
      const both = await call('encrypt/twin', { batch_input: [{ plaintext: base64('b') }, { plaintext: '' }] })
      await call('decrypt/twin', { batch_input: [first, ...both].map((ciphertext) => ({ ciphertext })) })
      await call('decrypt/twin', { ciphertext: first })
      const altered = first.replace(/.{6}$/, (end) => (end.startsWith('A') ? 'BAAAA=' : 'AAAAA='))
      const wrong = [altered, 'vault:v1:AAAA', first.replace(':v1:', ':v9:'), first.replace(':v1:', ':v2:')]
      await call('decrypt/twin', { batch_input: [...wrong, first].map((ciphertext) => ({ ciphertext })) })
      await call('decrypt/twin', { ciphertext: 'vault:v1:AAAA' })
      return outcomes
    }
    expect(await converse(fake.post)).toEqual(await converse(real.post))
  })
})
