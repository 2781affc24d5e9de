// Servers that break one rule each: the kit names that rule, and no other.
import type { wire } from '@eaas/protocol'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ELEMENT } from '../../../test/support/audit/audit-scene.js'
import { rounds } from '../../../test/support/run/rounds.js'
import {
  type Answer,
  answering,
  type Break,
  breaking,
  type Call,
  hearing,
} from '../../../test/support/service/breaking.js'
import { type Service, startService } from '../../../test/support/service/service.js'
import { ANSWER_CASES, CLOSED_CASES, PERMISSION_CASES, STATE_CASES } from './cases/answers.js'
import { CASES } from './suite.js'
import { only, runKit } from './test-support/command.js'

/** The cases without those that wait, and those that test/api/conformance.test.ts has faults for. */
const BROKEN = CASES.filter(
  ([name]) => !/exportAudit|readAuditCheckpoint|revokeSelf|E_IP_NOT_ALLOWED|E_BUDGET|has expired/.test(name),
)

let server: Service
beforeAll(async () => {
  server = await startService()
})
afterAll(() => server.close())

const KEY = '/v1/keys/:id'
const is = ({ method, path }: Call, wanted: string) => `${method} ${path.replace(/[0-9a-f-]{36}/, ':id')}` === wanted
const idIn = ({ path }: Call) => path.split('/')[3] ?? ''
const isObject = (value: unknown) => typeof value === 'object' && value !== null
const secretIn = ({ headers }: Call) => `${headers.get('authorization')}`.replace('Bearer ', '')

// biome-ignore lint/suspicious/noExplicitAny: each fault knows the members of its own call
type Change = (body: any, call: Call, answer: Answer) => object | false | undefined

/** Changes members of answers; undefined removes one. */
const answers = (wanted: string, change: Change): Break =>
  answering((answer, call) => {
    if (isObject(answer.body) && (wanted === '' || is(call, wanted)))
      Object.assign(answer.body, change(answer.body, call, answer))
  })
/** Changes members of what calls say. */
const hears = (change: (body: Call['body'], call: Call) => object | false | undefined): Break =>
  hearing((call) => {
    if (isObject(call.body)) Object.assign(call.body, change(call.body, call))
  })
/** Answers success instead of a refusal. */
const accepts = (wanted: string, code: string, isMeant: (body: Call['body']) => boolean = () => true): Break =>
  answering((answer, call) => {
    if (is(call, wanted) && answer.body?.code === code && isMeant(call.body))
      Object.assign(answer, { status: 200, body: {} })
  })
/** Refuses, or refuses otherwise. */
const refuses = (status: number, code: string, isMeant: (call: Call, answer: Answer) => boolean): Break =>
  answering((answer, call) => {
    if (isMeant(call, answer)) Object.assign(answer, { status, body: { ...answer.body, status, code, detail: '' } })
  })
/** Changes headers of answers. */
const sends = (change: (headers: Headers, answer: Answer, call: Call) => void): Break =>
  answering((answer, call) => change(answer.headers, answer, call))
/** Answers otherwise once a key was rotated. */
const onceRotated = (wanted: string, change: (body: Answer['body'], times: number) => object | false): Break => {
  const rotated = new Map<string, number>()
  return answers('', (body, call) => {
    if (is(call, `POST ${KEY}/rotate`)) rotated.set(idIn(call), (rotated.get(idIn(call)) ?? 0) + 1)
    const times = rotated.get(call.body?.key_id ?? idIn(call))
    return times !== undefined && is(call, wanted) && change(body, times)
  })
}

const ZEROS = '0'.repeat(64)

/** Each fault with the one case that fails. A fault is made anew for each run, since some remember what they saw. */
const FAULTS: [fault: string, name: RegExp, create: () => Break, mode?: 'with server mode'][] = [
  [
    'answers a refusal as JSON, and no problem document',
    /^every call: is refused with a problem document/,
    () => sends((headers, { status }) => status > 399 && headers.set('content-type', 'application/json')),
  ],
  [
    'leaves the title out of a refusal',
    /^every call: is refused with a problem document/,
    () => answers('', ({ code }) => code === 'E_UNAUTHORIZED' && { title: undefined }),
  ],
  [
    'sends no WWW-Authenticate',
    /^every call: without a valid API key/,
    () => sends((headers) => headers.delete('www-authenticate')),
  ],
  [
    'knows no 405',
    /^every call: of a path that is nowhere/,
    () => refuses(404, 'E_ROUTE_NOT_FOUND', (call) => is(call, 'GET /v1/hash')),
  ],
  [
    'answers 400 to a body that is too large',
    /^every call: takes a JSON object in UTF-8/,
    () => refuses(400, 'E_VALIDATION', (_, { status }) => status === 413),
  ],
  [
    'refuses unknown members',
    /^every call: ignores members/,
    () => refuses(400, 'E_VALIDATION', ({ body }) => body?.more !== undefined),
  ],
  [
    'refuses an empty body',
    /^rotateKey, enableKey, exportKey: need no body/,
    () => refuses(400, 'E_VALIDATION', (call) => is(call, `POST ${KEY}/enable`) && call.headers.has('content-type')),
  ],
  [
    'does not name the member that is wrong',
    /^every call: of a body with a member missing/,
    () => answers(`PATCH ${KEY}/rotation`, ({ status }) => status === 400 && { detail: 'wrong' }),
  ],
  [
    'ignores a parameter that it does not know',
    /^listKeys, listAudit, .*: refuse a query/,
    () => hearing(({ query }) => query.delete('user')),
  ],
  [
    'tells a malformed id from an unknown one',
    /: answer 404 E_NOT_FOUND alike/,
    () => answers('GET /v1/keys/users', () => ({ detail: 'that is no UUID' })),
  ],
  [
    'leaves a member out of a key',
    /^getKey: answers 200/,
    () => answers(`GET ${KEY}`, () => ({ updated_at: undefined })),
  ],
  [
    'answers 200 where it creates',
    /^createKey: answers 201/,
    () =>
      answering((answer, call) =>
        Object.assign(answer, is(call, 'POST /v1/keys') && answer.status === 201 && { status: 200 }),
      ),
  ],
  [
    'wants an API key for its health',
    /^getHealth: answers 200/,
    () => refuses(401, 'E_UNAUTHORIZED', (call) => is(call, 'GET /health')),
  ],
  [
    'lets caches keep an answer',
    /^unwrap: answers 200/,
    () => sends((headers, _, call) => is(call, `POST ${KEY}/unwrap`) && headers.delete('cache-control')),
  ],
  [
    'does not check a permission',
    /^getUsage: needs audit:read/,
    () => accepts('GET /v1/usage', 'E_MISSING_PERMISSION'),
  ],
  [
    'takes any permission for the one to export',
    /^exportKey: needs keys:export, and no other permission/,
    () => {
      const permitted = new Set<string>()
      return answering((answer, call) => {
        if (answer.body?.permissions?.length > 0) permitted.add(answer.body.secret)
        const isMeant = answer.body?.code === 'E_MISSING_PERMISSION' && permitted.has(secretIn(call))
        if (isMeant && is(call, `POST ${KEY}/export`)) Object.assign(answer, { status: 200, body: {} })
      })
    },
  ],
  [
    'rewraps without the permission to unwrap',
    /^rewrap: needs wrap and unwrap, and no other permission/,
    () =>
      answering((answer, call) => {
        const isMeant = is(call, `POST ${KEY}/rewrap`) && answer.body?.detail === 'missing permission: unwrap'
        if (isMeant) Object.assign(answer, { status: 200, body: {} })
      }),
  ],
  [
    'wants another permission',
    /^hash: needs hash, and no other permission/,
    () => {
      const hashing = new Set<string>()
      return answering((answer, call) => {
        if (`${answer.body?.permissions}` === 'hash' && answer.body.budgets === undefined)
          hashing.add(answer.body.secret)
        const isMeant = is(call, 'POST /v1/hash') && answer.status === 404 && hashing.has(secretIn(call))
        if (isMeant) Object.assign(answer, { status: 403, body: { ...answer.body, code: 'E_MISSING_PERMISSION' } })
      })
    },
  ],
  ['gives a name to two keys', /^createKey: refuses a name/, () => accepts('POST /v1/keys', 'E_NAME_TAKEN')],
  [
    'names a key otherwise in a list',
    /^createKey, getKey, listKeys: answer one key alike/,
    () =>
      answers(
        'GET /v1/keys',
        ({ keys }, { query }) => query.has('name') && { keys: keys?.map((key: object) => ({ ...key, name: 'x' })) },
      ),
  ],
  [
    'fails many keys as a whole where one name is taken',
    /^createKeys: answers each key in order/,
    () => answers('POST /v1/batch/keys', ({ results }) => results?.length === 4 && { results: results.slice(1) }),
  ],
  [
    'answers each page from the beginning',
    /^listKeys: answers pages/,
    () =>
      hearing(
        ({ path, query }) => path === '/v1/keys' && /^\d+$/.test(`${query.get('offset')}`) && query.delete('offset'),
      ),
  ],
  [
    'keeps a rotated version active',
    /^rotateKey: makes a version/,
    () =>
      onceRotated(
        `GET ${KEY}`,
        ({ versions }, times) =>
          times === 1 && versions && { versions: versions.map((one: object) => ({ ...one, status: 'active' })) },
      ),
  ],
  [
    'forgets a rotation policy',
    /^setRotation: sets the days/,
    () => answers(`GET ${KEY}`, ({ status }) => status === 'active' && { rotation: null }),
  ],
  [
    'destroys a key by any name',
    /^destroyKey, cancelDestruction: need the name/,
    () => accepts(`POST ${KEY}/destroy`, 'E_VALIDATION', ({ confirm }) => typeof confirm === 'string'),
  ],
  [
    'exports another key than the one that wraps',
    /^exportKey: answers each version/,
    () =>
      answers(`POST ${KEY}/export`, ({ versions: [one] = [] }) => one && Object.assign(one, { dek_hex: ZEROS }) && {}),
  ],
  [
    'exports another hash key',
    /^exportKey: answers each version/,
    () => answers(`POST ${KEY}/export`, ({ versions }) => versions && { hash_key_hex: ZEROS }),
  ],
  [
    'opens what a closed version wrapped',
    /^updateKey, unwrap, rewrap: open nothing older/,
    () => accepts(`POST ${KEY}/unwrap`, 'E_VERSION_TOO_OLD'),
  ],
  [
    'destroys a version that opens',
    /^destroyVersion: refuses a version that still opens/,
    () => accepts(`POST ${KEY}/versions/2/destroy`, 'E_STATE'),
  ],
  [
    'says that an enabled key is disabled',
    /^disableKey, enableKey: change nothing a second time/,
    () =>
      answers(
        'GET /v1/audit',
        ({ logs }) => logs?.length === 3 && logs[2].action === 'key.enable' && { logs: [...logs, logs[2]] },
      ),
  ],
  [
    'rotates a disabled key',
    /: are refused on a key that is disabled, and no other call is$/,
    () =>
      answering((answer) =>
        Object.assign(answer, /is disabled: to rotate/.test(answer.body?.detail) && { status: 200 }),
      ),
  ],
  [
    'unwraps another DEK after a rotation',
    /^wrap, unwrap: give back the DEK/,
    () =>
      onceRotated(
        `POST ${KEY}/unwrap`,
        ({ key_version }) => key_version === 1 && { dek: Buffer.alloc(32, 1).toString('base64') },
      ),
  ],
  [
    'rewraps under the version of before',
    /^rewrap: wraps under the current version/,
    () => answers(`POST ${KEY}/rewrap`, ({ key_version }) => key_version === 2 && { key_version: 1 }),
  ],
  [
    'trims a DEK',
    /^wrap: takes a DEK as canonical base64/,
    () => hears(({ dek }) => typeof dek === 'string' && dek.length > 40 && { dek: dek.trim() }),
  ],
  [
    'takes base64 without padding',
    /^unwrap, rewrap: refuse a wrapped key that is no canonical base64/,
    () => hears(({ wrapped_key }) => wrapped_key === 'AAA' && { wrapped_key: 'AAA=' }),
  ],
  [
    'says what of a wrapped key is wrong',
    /^unwrap, rewrap: refuse a wrapped key that was altered/,
    () => answers(`POST ${KEY}/unwrap`, (_, { body }) => body.wrapped_key === '' && { detail: 'too short' }),
  ],
  [
    'does not look at the context',
    /^wrap, unwrap, rewrap: bind a wrapped key of format 2/,
    () => accepts(`POST ${KEY}/unwrap`, 'E_WRAPPED_KEY', ({ context }) => context !== undefined),
  ],
  [
    'takes a context of nine pairs',
    /^wrap, unwrap, rewrap: refuse an unknown purpose/,
    () => hears(({ context }) => context?.a8 === '' && { context: { a0: '' } }),
  ],
  [
    'hashes otherwise after a rotation',
    /^hash: answers one text of 64/,
    () => onceRotated('POST /v1/hash', ({ hash }) => hash && { hash: ZEROS }),
  ],
  [
    'derives another secret after a rotation',
    /^indexSecret: answers 32 bytes/,
    () => onceRotated(`POST ${KEY}/index-secret`, ({ secret }) => secret && { secret: `${'A'.repeat(43)}=` }),
  ],
  [
    'names another public key after a rotation',
    /^blindHash, getKey: evaluate values unseen/,
    () => onceRotated(`GET ${KEY}`, (body) => body.blind_hash_public_key && { blind_hash_public_key: ELEMENT }),
  ],
  [
    'answers a blind hash with a proof of its own',
    /^blindHash, getKey: evaluate values unseen/,
    () => answers('POST /v1/hash/blind', ({ proof }) => proof && { proof: `AAAA${proof.slice(4)}` }),
  ],
  [
    'takes the first 256 elements of more',
    /^blindHash, batch: take 1 to 256/,
    () => hears(({ elements }) => elements?.length === 257 && { elements: elements.slice(1) }),
  ],
  [
    'ignores the suite of a blind hash',
    /^blindHash, batch: take 1 to 256/,
    () => hears(({ elements, suite }) => elements && suite !== undefined && { suite: 'ristretto255-SHA512' }),
  ],
  [
    'hashes without regard to case',
    /^hash: differs for another value/,
    () => hears(({ value }) => value === 'A' && { value: 'a' }),
  ],
  [
    'opens bundles to other texts than the exported key',
    /^encrypt, decrypt: give back texts and bytes/,
    () => answers('POST /v1/decrypt', ({ plaintext }) => plaintext === '' && { plaintext: 'x' }),
    'with server mode',
  ],
  [
    'guesses that a text is base64',
    /^encrypt, decrypt: take text and base64 as they are told/,
    () => hears(({ plaintext }) => plaintext === '//8=' && { encoding: 'base64' }),
    'with server mode',
  ],
  [
    'says what of a bundle is wrong',
    /^decrypt: refuses what was altered/,
    () =>
      answers(
        'POST /v1/decrypt',
        ({ status }, { body }) => status === 422 && body.ciphertext === '' && { detail: 'no tag' },
      ),
    'with server mode',
  ],
  [
    'answers a batch in another order',
    /^batch: answers each operation in order/,
    () => answers('POST /v1/batch', ({ results }) => results?.length === 8 && { results: results.reverse() }),
  ],
  [
    'takes the first thousand operations of more',
    /^batch: takes 1 to 1,000/,
    () => hears(({ operations }) => operations?.length > 1_000 && { operations: operations.slice(1) }),
  ],
  [
    'checks the permission of a batch by its first operation',
    /^batch: checks the permission of each/,
    () =>
      answers('POST /v1/batch', ({ results }) => results?.length === 4 && { results: results.map(() => results[0]) }),
  ],
  [
    'does not say E_ENVELOPE_ONLY',
    /^encrypt: is refused with 403 E_ENVELOPE_ONLY/,
    () => answers('POST /v1/encrypt', ({ code }) => code === 'E_ENVELOPE_ONLY' && { detail: 'closed' }),
  ],
  [
    'shows the secrets of API keys',
    /^createApiKey, listApiKeys: show a secret once/,
    () => {
      const secrets = new Map<string, string>()
      return answers('', ({ id, secret, api_keys = [] }) => {
        if (secret) secrets.set(id, secret)
        for (const one of api_keys) one.secret = secrets.get(one.id)
        return undefined
      })
    },
  ],
  [
    'keeps ranges as they were written',
    /^updateApiKey: writes addresses and ranges/,
    () =>
      answers(
        'PATCH /v1/api-keys/:id',
        ({ id }, { body }) => id && body.allowed_ips && { allowed_ips: body.allowed_ips },
      ),
  ],
  [
    'clears what a change does not name',
    /^updateApiKey: keeps a member that is absent/,
    () =>
      answers('PATCH /v1/api-keys/:id', (_, { body }) => Object.keys(body).length === 0 && { expires_at: undefined }),
  ],
  [
    'takes a permission that is none',
    /^createApiKey, updateApiKey: refuse members/,
    () => accepts('PATCH /v1/api-keys/:id', 'E_VALIDATION', ({ permissions }) => permissions?.[0] === 'admin'),
  ],
  [
    'grants what the caller does not hold',
    /^createApiKey, updateApiKey: grant only/,
    () => accepts('PATCH /v1/api-keys/:id', 'E_MISSING_PERMISSION', ({ permissions }) => permissions?.length === 2),
  ],
  [
    'takes a revoked API key',
    /^revokeApiKey, updateApiKey: end an API key/,
    () => {
      const ids = new Map<string, string>()
      const revoked = new Set<string>()
      return answering((answer, call) => {
        if (answer.body?.secret) ids.set(answer.body.secret, answer.body.id)
        if (is(call, 'DELETE /v1/api-keys/:id')) revoked.add(idIn(call))
        const isMeant = answer.status === 401 && revoked.has(ids.get(secretIn(call)) ?? '')
        if (isMeant) Object.assign(answer, { status: 200, body: { keys: [], count: 0 } })
      })
    },
  ],
  [
    'tells a key outside of a list from one that is not there',
    /: limit an API key to its keys and folders/,
    () => {
      const limited = new Set<string>()
      return refuses(403, 'E_MISSING_PERMISSION', (call, { status, body }) => {
        if (body?.keys?.length === 2) limited.add(body.secret)
        return status === 404 && limited.has(secretIn(call))
      })
    },
  ],
  [
    'leaves the version out of an entry',
    /^listAudit: has an entry for each change/,
    () =>
      answers(
        'GET /v1/audit',
        ({ logs }) =>
          logs && {
            logs: logs.map((one: wire.Entry) => ({ ...one, metadata: { ...one.metadata, key_version: undefined } })),
          },
      ),
  ],
  [
    'answers the oldest entry first',
    /^listAudit: numbers entries without gaps/,
    () => answers('GET /v1/audit', ({ logs }, { query }) => query.get('limit') === '4' && { logs: logs.reverse() }),
  ],
  [
    'leaves out the end of a time',
    /^listAudit: filters by action, actor and time/,
    () =>
      answers('GET /v1/audit', ({ logs }, { query }) => {
        const until = query.get('date_to')
        return (
          until !== null && { logs: logs?.filter(({ created_at }: { created_at: string }) => created_at !== until) }
        )
      }),
  ],
  [
    'does not record the end user',
    /: record the end user/,
    () => hearing(({ headers, body }) => body?.dek && headers.delete('eaas-on-behalf-of')),
  ],
  [
    'finds its log broken',
    /^verifyAudit: finds the log valid/,
    () => answers('GET /v1/audit/verify', ({ valid }) => valid && { valid: false }),
  ],
  [
    'answers an id in the case in which it was asked',
    /: take an id in capitals/,
    () =>
      answers(
        '',
        ({ key_id }, { body }) => key_id && body?.key_id?.toLowerCase?.() === key_id && { key_id: body?.key_id },
      ),
  ],
  [
    'counts each wrap twice',
    /^getUsage: counts the operations/,
    () =>
      answers(
        'GET /v1/usage',
        ({ operations }) => operations && Object.assign(operations, { 'key.wrap': 2 * operations['key.wrap'] }) && {},
      ),
  ],
]

/** One in so many of the other cases runs with each fault, not the same ones. */
const SHARE = rounds(6, 1)

describe.each(FAULTS.map(([fault, name, create, mode], at) => [fault, { name, create, mode, at }] as const))(
  'a server that %s',
  (_, { name, create, mode, at }) => {
    it('fails the case of that rule alone', async () => {
      const { secret } = await server.createTenant({ envelope_only: mode === undefined })
      const cases = BROKEN.filter(([one], index) => index % SHARE === at % SHARE || name.test(one))
      const target = { baseUrl: server.url, apiKey: secret, fetch: breaking(fetch, create()) }
      const { failed, code } = await runKit(target, only(cases))
      expect([failed, code]).toEqual([[expect.stringMatching(name)], 1])
    })
  },
)

it('every case that says more than that a call is answered has such a server', () => {
  const own = [...ANSWER_CASES, ...PERMISSION_CASES, ...STATE_CASES, ...CLOSED_CASES]
  const uncovered = BROKEN.filter((one) => !own.includes(one) && !FAULTS.some(([, name]) => name.test(one[0])))
  expect(uncovered.map(([name]) => name)).toEqual([])
})
