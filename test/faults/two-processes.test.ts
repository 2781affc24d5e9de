// Two servers on one PostgreSQL, as real processes: once one acknowledges a change, the other acts on it.
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { backend, type TestDatabase } from '../support/database/database.js'
import { databaseWithTenant } from '../support/database/filled-database.js'
import { rounds } from '../support/run/rounds.js'
import { connectTo, type EaasProcess, ROOT_KEY, startEaas } from '../support/service/eaas-process.js'
import { type Calls, callsOf, startLoad } from '../support/service/load.js'
import { checkInvariants } from './invariants.js'

const ROUNDS = rounds(20, 90)
const CLIENTS = 16

describe.skipIf(backend() === 'embedded')('two servers on one database (an embedded one has a single server)', () => {
  let database: TestDatabase
  let tenant: { tenant_id: string; api_key: { id: string; secret: string } }
  let servers: EaasProcess[] = []
  /** one for each server, so that each has a connection of its own */
  let owners: ((method: string, path: string, body?: unknown) => ReturnType<Calls>)[]

  beforeAll(async () => {
    ;({ database, ...tenant } = await databaseWithTenant())
    servers = await Promise.all([startEaas({ database }), startEaas({ database })])
    owners = servers.map(({ url }) => {
      const call = callsOf(tenant.api_key.secret)
      return (method, path, body) => call(url, method, path, body)
    })
  })
  afterAll(() => Promise.all(servers.map((server) => server.stop())))

  /** The servers in turn: the one that is told, and the other. */
  function pair(round: number) {
    const [one, other] = round % 2 === 0 ? [0, 1] : [1, 0]
    const [tell, ask] = [owners[one as number], owners[other as number]]
    const url = servers[other as number]?.url
    if (!tell || !ask || url === undefined) throw new Error('the servers did not start')
    return { tell, ask, otherUrl: url }
  }

  const dek = () => randomBytes(32).toString('base64')
  const unique = (what: string) => `${what} ${randomBytes(6).toString('hex')}`

  async function newKey(): Promise<string> {
    const { body } = await pair(0).tell('POST', '/v1/keys', { name: unique('key') })
    return body.id
  }

  it('refuse an API key from the moment that the other acknowledged its revocation', async () => {
    const key_id = await newKey()
    for (let round = 0; round < ROUNDS; round++) {
      const { tell, otherUrl } = pair(round)
      const made = await tell('POST', '/v1/api-keys', { name: unique('client'), permissions: ['encrypt'] })
      const client = callsOf(made.body.secret)
      const wrap = () => client(otherUrl, 'POST', `/v1/keys/${key_id}/wrap`, { dek: dek() })
      const hash = () => client(otherUrl, 'POST', '/v1/hash', { key_id, value: 'x' })
      expect((await wrap()).status).toBe(200) // the other has it cached now
      expect((await tell('DELETE', `/v1/api-keys/${made.body.id}`)).status).toBe(204)
      const late = round % 4 < 2 ? await wrap() : await hash()
      expect([round, late.status]).toEqual([round, 401])
    }
  }, 60_000)

  it('wrap under a new version from the moment that the other acknowledged the rotation', async () => {
    const key_id = await newKey()
    for (let round = 0; round < ROUNDS; round++) {
      const { tell, ask } = pair(round)
      const { body: rotated } = await tell('POST', `/v1/keys/${key_id}/rotate`)
      const { body: wrapped } = await ask('POST', `/v1/keys/${key_id}/wrap`, { dek: dek() })
      expect([rotated.current_version, wrapped.key_version]).toEqual([round + 2, round + 2])
    }
  }, 60_000)

  it('stop wrapping and go on unwrapping from the moment that the other acknowledged that a key is disabled', async () => {
    const key_id = await newKey()
    const secret = dek()
    const { wrapped_key } = (await pair(0).tell('POST', `/v1/keys/${key_id}/wrap`, { dek: secret })).body
    for (let round = 0; round < ROUNDS / 4; round++) {
      const { tell, ask } = pair(round)
      const wrap = () => ask('POST', `/v1/keys/${key_id}/wrap`, { dek: dek() })
      await tell('DELETE', `/v1/keys/${key_id}`)
      const refused = await wrap()
      expect([refused.status, refused.body.code]).toEqual([409, 'E_STATE'])
      expect((await ask('POST', `/v1/keys/${key_id}/unwrap`, { wrapped_key })).body.dek).toBe(secret)
      await tell('POST', `/v1/keys/${key_id}/enable`)
      expect((await wrap()).status).toBe(200)
    }
  }, 60_000)

  it('use a key from the moment that the other acknowledged its creation', async () => {
    for (let round = 0; round < ROUNDS / 4; round++) {
      const { tell, ask } = pair(round)
      const { body } = await tell('POST', '/v1/keys', { name: unique('key') })
      expect((await ask('POST', `/v1/keys/${body.id}/wrap`, { dek: dek() })).status).toBe(200)
    }
  })

  it('give a name to exactly one of several keys that are created at once', async () => {
    for (let round = 0; round < 10; round++) {
      const name = unique('contested')
      const attempts = owners.flatMap((owner) => [owner, owner, owner])
      const answers = await Promise.all(attempts.map((create) => create('POST', '/v1/keys', { name })))
      expect(answers.map(({ status }) => status).sort()).toEqual([201, 409, 409, 409, 409, 409])
    }
  })

  it('give each of several rotations at once a version of its own, without a gap', async () => {
    const key_id = await newKey()
    const attempts = owners.flatMap((owner) => Array.from({ length: 12 }, () => owner))
    const answers = await Promise.all(attempts.map((rotate) => rotate('POST', `/v1/keys/${key_id}/rotate`)))
    const versions = answers.map(({ body }) => body.current_version).sort((a, b) => a - b)
    expect(versions).toEqual(attempts.map((_, at) => at + 2))
    const { body } = await pair(0).tell('GET', `/v1/keys/${key_id}`)
    expect(body.versions.map(({ version }: { version: number }) => version)).toEqual([1, ...versions])
  })

  it('write one chain under load, without a failed call', async () => {
    const load = await startLoad({
      target: (client) => servers[client % servers.length]?.url,
      secret: tenant.api_key.secret,
      clients: CLIENTS,
      mix: { unwrap: 90, wrap: 6, hash: 2, create: 1, rotate: 1 },
    })
    let key_id = ''
    for (let round = 0; round < ROUNDS / 4 || load.acked() < 30 * ROUNDS; round++) {
      if (round % 50 === 0) key_id = await newKey() // a key gets 100 versions at once
      const { tell, ask } = pair(round)
      const { body: rotated } = await tell('POST', `/v1/keys/${key_id}/rotate`)
      const { body: wrapped } = await ask('POST', `/v1/keys/${key_id}/wrap`, { dek: dek() })
      expect(wrapped.key_version).toBe(rotated.current_version)
    }
    await load.stop()
    const sql = connectTo(database)
    try {
      const findings = await checkInvariants(sql, {
        tenant_id: tenant.tenant_id,
        rootKey: ROOT_KEY,
        load,
        url: servers[0]?.url ?? '',
        secret: tenant.api_key.secret,
        mostUnacknowledged: 0,
      })
      expect(findings.violations).toEqual([])
      expect(load.failures()).toBe(0)
    } finally {
      await sql.end()
    }
  }, 120_000)
})
