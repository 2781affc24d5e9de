// Random requests against the server, made from its OpenAPI document. Whatever is sent, the answer is one that the document has, nothing of
// another tenant is in it, the process lives on in bounded memory, and both logs verify.
import { readFileSync } from 'node:fs'
import { Agent } from 'node:http'
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import formats from 'ajv-formats'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { checkTenant } from '../independent/checker.js'
import { openLogKeys } from '../independent/stored.js'
import { backend, isPooled } from '../support/database/database.js'
import { copyOfFilled } from '../support/database/filled-database.js'
import { rounds } from '../support/run/rounds.js'
import { connectTo, ROOT_KEY, startEaas, untilHealthy } from '../support/service/eaas-process.js'
import { type Caller, send } from '../support/service/service.js'
import { percentile } from './crash-run.js'
import { type Document, type FuzzedRequest, fuzzedRequests, KINDS, type Kind, type Schema } from './fuzzed-requests.js'

/** All of them through HTTP to one back end: the other ones change nothing of what is parsed. */
const REQUESTS = rounds(4_000, backend() === 'postgres' && !isPooled() ? 200_000 : 20_000)
const SEED = 20_261_126
const CHUNK = 1_000
const AT_ONCE = 8
const KEPT = 24
const SHOWN = 10
/** On two cores that others use too. */
const TIMEOUT_MS = 2 * 3_600_000
/** From the second quarter of the requests to the last: the tenant's keys and API keys, which the server keeps in memory, are within it. */
const GROWTH_MIB = 64
const FOREIGN = 'canary-of-another-tenant'
const PROBLEM_TYPE = 'application/problem+json'

const rssMib = (pid: number) => Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1_024

/** Fills a tenant with one of each thing. */
async function ground(owner: Caller, word: string) {
  const key = (await owner.call('POST', '/v1/keys', { name: word })).body
  const wrapped = (
    await owner.call('POST', `/v1/keys/${key.key_id}/wrap`, { dek: Buffer.alloc(32, word).toString('base64') })
  ).body
  const bundle = (await owner.call('POST', '/v1/encrypt', { key_id: key.key_id, plaintext: word })).body
  const made = (
    await owner.call('POST', '/v1/api-keys', { name: word, permissions: ['encrypt', 'decrypt', 'keys:read'] })
  ).body
  const few = { budgets: { unwrap: { per_minute: 2 }, hash: { per_minute: 2 } } }
  const spent = (await owner.call('POST', '/v1/api-keys', { name: 'few', permissions: ['unwrap', 'hash'], ...few }))
    .body
  const { total } = (await owner.call('GET', '/v1/audit?limit=1')).body
  const { tenant_id, api_key } = owner.tenant
  return { tenant_id, owner: api_key, key, wrapped, bundle, made, spent, entries: total as number }
}

it('answers every request as its document says', { timeout: TIMEOUT_MS }, async () => {
  const { database, filled } = await copyOfFilled(
    'fuzzed',
    async (service) => ({
      own: await ground(await service.createTenant({ envelope_only: false }), 'own'),
      foreign: await ground(await service.createTenant({ envelope_only: false, name: FOREIGN }), FOREIGN),
    }),
    { environment: { EAAS_ROOT_KEY: ROOT_KEY } },
  )
  const { own, foreign } = filled
  const eaas = await startEaas({ database })
  const { pid } = eaas
  const document: Document = await (await fetch(`${eaas.url}/openapi.json`)).json()
  const ajv = new Ajv2020({ strict: false, allErrors: true, formats: { cidr: true } })
  formats.default(ajv)
  ajv.addSchema(document, 'openapi')

  const pools: Record<Kind, string[]> = {
    key_id: [own.key.key_id, foreign.key.key_id],
    api_key_id: [own.made.id, foreign.made.id, foreign.owner.id],
    wrapped_key: [own.wrapped.wrapped_key, foreign.wrapped.wrapped_key, foreign.bundle.wrapped_key],
    bundle: [JSON.stringify(own.bundle), JSON.stringify(foreign.bundle)],
    name: ['own'],
    secret: [own.made.secret, own.spent.secret],
    version: ['1', '2'],
  }
  // The first ones stay: they are of the two tenants that the run began with.
  const firsts = Object.fromEntries(KINDS.map((kind) => [kind, pools[kind].length])) as Record<Kind, number>
  function keep(kind: Kind, value: unknown) {
    if (value === own.owner.id || value === undefined || pools[kind].includes(String(value))) return
    pools[kind].push(String(value))
    if (pools[kind].length > KEPT) pools[kind].splice(firsts[kind], 1)
  }
  // biome-ignore lint/suspicious/noExplicitAny: an answer of any operation
  function learn(body: any) {
    if (body?.ciphertext) keep('bundle', JSON.stringify(body))
    if (body?.wrapped_key) keep('wrapped_key', body.wrapped_key)
    if (body?.algorithm && body.status !== 'destroyed') {
      keep('key_id', body.key_id)
      keep('name', body.name)
    }
    if (body?.prefix) keep('api_key_id', body.id)
    if (body?.secret) keep('secret', body.secret)
    if (Array.isArray(body?.keys)) for (const key of body.keys.slice(0, 3)) learn(key)
  }
  // A random text can look like a place of no kind.
  const places = new RegExp(`("?)@(${KINDS.join('|')}):(\\d+)("?)`, 'g')
  function fill(text: string, isJson: boolean): string {
    return text.replaceAll(places, (_, open, kind: Kind, at, close) => {
      const value = pools[kind][Number(at) % pools[kind].length] ?? ''
      if (!isJson) return encodeURIComponent(value)
      return kind === 'bundle' || kind === 'version' ? value : `${open}${JSON.stringify(value).slice(1, -1)}${close}`
    })
  }

  function responseOf(path: string, method: string, status: number) {
    const { $ref, ...response } = document.paths[path]?.[method]?.responses[status] ?? {}
    const name = $ref?.split('/').at(-1)
    return name === undefined
      ? { at: `#/paths/${escaped(path)}/${method}/responses/${status}`, response }
      : { at: $ref, response: document.components.responses[name] ?? {} }
  }
  const validators = new Map<Schema, ValidateFunction>()
  function misfits(schema: Schema, at: string, body: unknown): string[] {
    const validate = validators.get(schema) ?? ajv.compile({ $ref: `openapi${at}` })
    validators.set(schema, validate)
    return validate(body) ? [] : (validate.errors ?? []).map((error) => `${error.instancePath} ${error.message}`)
  }
  const escaped = (name: string) => encodeURIComponent(name.replaceAll('~', '~0').replaceAll('/', '~1'))

  /** What is wrong with an answer; undefined if nothing is. */
  function faultOf(sent: FuzzedRequest, asked: string, answer: Awaited<ReturnType<typeof send>>): string | undefined {
    const { status, headers, body } = answer
    if (status >= 500) return 'a 5xx'
    const type = headers.get('content-type')?.split(';')[0] ?? ''
    const secrets = [
      FOREIGN,
      foreign.tenant_id,
      foreign.owner.id,
      foreign.made.id,
      foreign.key.key_id,
      Buffer.alloc(32, FOREIGN).toString('base64'),
    ]
    if (secrets.some((secret) => body.includes(secret) && !asked.includes(secret)))
      return 'shows what is of another tenant'
    const { path, method } = sent.operation ?? { path: '', method: '' }
    const responses = document.paths[path]?.[method]?.responses
    if (!responses) return status >= 400 && type === PROBLEM_TYPE ? undefined : 'no problem document for no operation'
    if (!responses[status]) return 'a status that the document does not have'
    const { at, response } = responseOf(path, method, status)
    const { content } = response
    if (!content) return body === '' ? undefined : 'an answer where the document has none'
    if (!content[type]) return `the type ${type}, which the document does not have`
    if (!/json$/.test(type) || type.includes('ndjson')) return undefined
    const faults = misfits(content[type].schema, `${at}/content/${escaped(type)}/schema`, JSON.parse(body))
    return faults.length === 0 ? undefined : `not as its schema: ${faults.slice(0, 3).join('; ')}`
  }

  const faults: string[] = []
  const statuses: Record<string, number> = {}
  const reached = new Set<string>()
  /** Sends a request on a connection of the caller's. Returns it as one line. */
  async function ask(sent: FuzzedRequest, agent: Agent, before: string): Promise<string> {
    const path = fill(sent.path, false)
    const headers = Object.fromEntries(Object.entries(sent.headers).map(([name, value]) => [name, fill(value, true)]))
    const body = sent.body === undefined ? undefined : fill(sent.body, true)
    // Node's client says no length of the body of a GET by itself.
    if (body !== undefined) headers['content-length'] = String(Buffer.byteLength(body))
    const line = `${sent.method} ${path} ${JSON.stringify(headers)} ${body?.slice(0, 400)}`
    let answer: Awaited<ReturnType<typeof send>>
    try {
      answer = await send(new URL(eaas.url), { method: sent.method, headers, body }, { agent, path })
    } catch (error) {
      // Node's parser of answers keeps the bytes that it could not take.
      const { rawPacket } = error as { rawPacket?: Buffer }
      const bytes = rawPacket === undefined ? '' : ` at ${JSON.stringify(rawPacket.toString('latin1').slice(0, 1_000))}`
      faults.push(`${error}${bytes}: ${line}, after ${before}`)
      return line
    }
    statuses[answer.status] = (statuses[answer.status] ?? 0) + 1
    if (answer.status < 300 && sent.operation) reached.add(`${sent.operation.method} ${sent.operation.path}`)
    const answered = `${line} -> ${answer.status} ${answer.body.slice(0, 400)}`
    const fault = faultOf(sent, `${path} ${body}`, answer)
    if (fault !== undefined) faults.push(`${fault}: ${answered}`)
    else if (answer.body.startsWith('{')) learn(safely(answer.body))
    return answered
  }

  const arbitrary = fuzzedRequests(document, own.owner.secret)
  const sizes: number[] = []
  const agents = Array.from({ length: AT_ONCE }, () => new Agent({ keepAlive: true, maxSockets: 1 }))
  for (let begun = 0; begun < REQUESTS; begun += CHUNK) {
    const chunk = fc.sample(arbitrary, { seed: SEED + begun, numRuns: Math.min(CHUNK, REQUESTS - begun) }).values()
    await Promise.all(
      agents.map(async (agent) => {
        let before = ''
        for (const sent of chunk) before = await ask(sent, agent, before)
      }),
    )
    sizes.push(rssMib(pid))
  }
  // Medians, since a collection of garbage takes 50 MiB off one size.
  const [, second = Number.NaN, , last = Number.NaN] = Array.from({ length: 4 }, (_, at) => {
    const quarter = sizes.slice((at * sizes.length) / 4, ((at + 1) * sizes.length) / 4)
    return percentile(
      quarter.sort((a, b) => a - b),
      0.5,
    )
  })
  console.log(
    `fuzz: ${REQUESTS} requests, answers ${JSON.stringify(statuses)}, ${reached.size} operations succeeded, RSS in MiB by ${CHUNK}: ${sizes.map(Math.round).join(' ')}`,
  )

  // Soft, so that a fault does not keep the logs from being verified.
  expect.soft(faults.slice(0, SHOWN), `${faults.length} faults`).toEqual([])
  await untilHealthy(eaas)
  expect(eaas.pid).toBe(pid)
  expect(last - second).toBeLessThan(GROWTH_MIB)
  expect(eaas.stderr + eaas.stdout.replaceAll(/^EaaS .*\n/gm, '')).not.toMatch(/"level":[56]0/)
  const sql = connectTo(database)
  try {
    for (const { tenant_id } of [own, foreign]) {
      const keys = await openLogKeys(sql, Buffer.from(ROOT_KEY, 'base64'), tenant_id)
      const { verdict, faults } = await checkTenant(sql, { tenant_id, ...keys })
      expect([verdict.valid, faults]).toEqual([true, []])
      if (tenant_id === foreign.tenant_id) expect(verdict.verified_entries).toBe(foreign.entries)
    }
  } finally {
    await sql.end()
    await eaas.stop()
  }
})

function safely(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined // an export's lines
  }
}
