/** What all calls share: authentication, bodies, queries, problem documents, ids. */
import { CALL_RULES, type OperationId, PROBLEMS, type ProblemCode, wire } from '@eaas/protocol'
import { type Answer, refusalOf, type Said, type Session } from '../session.js'
import { type Cases, check, NOWHERE, OPERATIONS, randomBase64, same } from './case.js'
import { makeGround, READY } from './ready-calls.js'

const JSON_TYPE = { 'content-type': 'application/json' }
const ON_KEY = OPERATIONS.filter((operation) => CALL_RULES[operation].key)

/** Checks the answer to a request that no schema describes: its status and, for a refusal, its code. */
async function answered(session: Session, wanted: string, method: string, path: string, said: Said): Promise<Answer> {
  const answer = await session.send(method, path, said)
  const got = answer.status < 300 ? `${answer.status}` : refusalOf(answer.status, answer.body)
  same(got, wanted, `${method} ${path} of ${JSON.stringify(said.body ?? '').slice(0, 80)}`)
  return answer
}

export const EVERY_CALL_CASES: Cases = {
  async 'every call: is refused with a problem document: type, title, status, detail, code, and X-Request-Id'({
    send,
    newName,
  }) {
    const refusals: [ProblemCode, string, string, Said?][] = [
      ['E_VALIDATION', 'POST', '/v1/keys', { body: {} }],
      ['E_MALFORMED_REQUEST', 'POST', '/v1/keys', { body: '{', headers: JSON_TYPE }],
      ['E_UNAUTHORIZED', 'GET', '/v1/keys', { apiKey: null }],
      ['E_NOT_FOUND', 'GET', `/v1/keys/${NOWHERE}`],
      ['E_ROUTE_NOT_FOUND', 'GET', '/v1/nothing'],
      ['E_METHOD_NOT_ALLOWED', 'PUT', '/v1/keys'],
      ['E_MEDIA_TYPE', 'POST', '/v1/keys', { body: newName(), headers: { 'content-type': 'text/plain' } }],
    ]
    for (const [code, method, path, said] of refusals) {
      const { headers, body } = await send(method, path, said)
      same(headers.get('content-type'), 'application/problem+json', `Content-Type of ${code}`)
      check((headers.get('x-request-id') ?? '') !== '', `${code} has no X-Request-Id`)
      wire.readAnswer(wire.problem, body)
      const { title, status } = PROBLEMS[code]
      const document = { type: body.type, title: body.title, status: body.status, code: body.code }
      same(document, { type: 'about:blank', title, status, code }, 'the document')
    }
  },
  async 'every call: without a valid API key is answered 401 with WWW-Authenticate: Bearer, before its body is read'(
    session,
  ) {
    const { secret } = await session.newApiKey({ permissions: [] })
    for (const authorization of ['', 'Bearer', `Bearer  ${secret}`, `Basic ${secret}`, secret, `Bearer ${secret}x`]) {
      const headers = { ...JSON_TYPE, authorization }
      const answer = await answered(session, '401 E_UNAUTHORIZED', 'POST', '/v1/keys', { body: '{', headers })
      same(answer.headers.get('www-authenticate'), 'Bearer', 'WWW-Authenticate')
    }
    const said = { body: '{', headers: { ...JSON_TYPE, authorization: `bEARER ${secret}` } }
    await answered(session, '403 E_MISSING_PERMISSION', 'POST', '/v1/keys', said)
  },
  async 'every call: of a path that is nowhere is answered 404, and by another method 405'(session) {
    for (const path of ['/v1/nothing', '/v1', '/V1/keys', '/v1/keys/x/y', '/v1//keys'])
      await answered(session, '404 E_ROUTE_NOT_FOUND', 'GET', path, {})
    for (const [method, path] of [
      ['PUT', '/v1/keys'],
      ['GET', '/v1/hash'],
      ['POST', '/v1/audit'],
      ['DELETE', '/v1/tenant'],
      ['GET', '/v1/keys/x/rotate'],
      ['POST', '/health'],
    ] as const)
      await answered(session, '405 E_METHOD_NOT_ALLOWED', method, path, {})
  },
  async 'every call: takes a JSON object in UTF-8 of at most 1 MiB, and answers 400, 413 or 415 to any other body'(
    session,
  ) {
    for (const body of [...NO_JSON, ...NO_UTF8.map((bytes) => Uint8Array.from([0x22, ...bytes, 0x22]))])
      await answered(session, '400 E_MALFORMED_REQUEST', 'POST', '/v1/keys', { body, headers: JSON_TYPE })
    for (const body of ['', '[]', '"x"', 'null'])
      await answered(session, '400 E_VALIDATION', 'POST', '/v1/keys', { body, headers: JSON_TYPE })
    for (const type of ['text/plain', 'application/json; charset=utf-16', 'application/problem+json']) {
      const headers = { 'content-type': type }
      await answered(session, '415 E_MEDIA_TYPE', 'POST', '/v1/keys', { body: '{"name":"x"}', headers })
    }
    await answered(session, '413 E_BODY_TOO_LARGE', 'POST', '/v1/keys', { body: { name: 'x'.repeat(1_048_576) } })
    for (const type of ['application/json;charset=UTF-8', 'Application/JSON; charset="utf-8"']) {
      const headers = { 'content-type': type }
      await session.ok('createKey', { body: JSON.stringify({ name: session.newName() }), headers })
    }
  },
  async 'every call: ignores members that it does not know, and takes none from a prototype'(session) {
    const { id } = await session.newKey()
    const dek = randomBase64()
    const headers = JSON_TYPE
    await session.ok('wrap', { id, body: { dek, more: 'ignored' } })
    await session.ok('wrap', { id, headers, body: `{"dek":"${dek}","__proto__":{"dek":1},"constructor":1}` })
    await session.refused('wrap', { id, headers, body: `{"__proto__":{"dek":"${dek}"}}` }, '400 E_VALIDATION')
  },
  async 'rotateKey, enableKey, exportKey: need no body, and take an empty one'(session) {
    const { id } = await session.newKey()
    for (const operation of ['rotateKey', 'enableKey', 'exportKey'] as const) {
      await session.ok(operation, { id })
      await session.ok(operation, { id, body: '', headers: JSON_TYPE })
    }
  },
  async 'every call: of a body with a member missing or of another kind is answered 400, and the detail names the member'(
    session,
  ) {
    const { id } = await session.newKey()
    const wrong: [OperationId, string, object[]][] = [
      ['createKey', 'name', [{}, { name: null }, { name: '' }, { name: 'x'.repeat(256) }, { name: 'a\0' }]],
      ['createKey', 'name', [{ name: '\ud800' }, { name: 7 }]],
      ['createKey', 'algorithm', [{ name: 'x', algorithm: 'AES-128-GCM' }]],
      ['setRotation', 'interval_days', [{}, ...[0, 3_651, 1.5, '1'].map((interval_days) => ({ interval_days }))]],
      ['wrap', 'dek', [{}, { dek: 1 }, { dek: randomBase64(31) }]],
      ['unwrap', 'wrapped_key', [{}, { wrapped_key: {} }]],
      ['destroyKey', 'confirm', [{}, { confirm: 1 }]],
      ['hash', 'value', [{ key_id: id }, ...[1, '\ud800', '\udc00'].map((value) => ({ key_id: id, value }))]],
      ['hash', 'key_id', [{ value: 'x' }, { value: 'x', key_id: 7 }]],
      ['updateKey', 'min_unwrap_version', [{}, { min_unwrap_version: 0 }]],
      ['batch', 'operations', [undefined, ...NO_OPERATIONS].map((operations) => ({ operations }))],
      ['createApiKey', 'name', [{ permissions: [] }]],
      ['createApiKey', 'permissions', [{ name: 'x' }, { name: 'x', permissions: null }]],
    ]
    for (const [operation, member, bodies] of wrong) {
      for (const body of bodies) {
        const answer = await session.refused(operation, { id, body }, '400 E_VALIDATION')
        check(answer.body.detail.startsWith(member), `${operation}: the detail does not name ${member}`)
      }
    }
  },
  async 'listKeys, listAudit, listApiKeys, getUsage, verifyAudit: refuse a query that they do not understand with 400, and never ignore a part of it'(
    session,
  ) {
    for (const query of QUERIES) await answered(session, '400 E_VALIDATION', 'GET', `/v1/${query}`, {})
    for (const path of ['audit', 'keys'])
      await answered(session, '200', 'GET', `/v1/${path}?limit=${'9'.repeat(20)}`, {})
    await answered(session, '200', 'GET', '/v1/tenant?_=1', {})
  },
  async 'getKey, hash: take an id in capitals, and answer it in lower case'(session) {
    const { id } = await makeGround(session)
    const key_id = id.toUpperCase()
    same((await session.ok('getKey', { id: key_id })).id, id, 'the id of the key')
    same((await session.ok('hash', { body: { value: 'a', key_id } })).key_id, id, 'the id of the key')
  },
  async [`${ON_KEY.join(', ')}: answer 404 E_NOT_FOUND alike for an unknown id, a malformed one and a name`](session) {
    const ground = await makeGround(session)
    const answers = new Set<string>()
    const spellings = [`${ground.id}x`, `{${ground.id}}`, ground.id.replaceAll('-', ''), 'x'.repeat(10_000)]
    for (const id of [NOWHERE, ...spellings, 'users', '%00', '..%2fkeys', '%C3%A9']) {
      for (const operation of ON_KEY) {
        if (CALL_RULES[operation].serverMode && !session.isOpen) continue
        const said = READY[operation]({ ...ground, id: encodeURI(decodeURIComponent(id)) }, session)
        const named = said.body && 'key_id' in (said.body as object)
        const body = named && { ...(said.body as object), key_id: decodeURIComponent(id) }
        const withId = { ...said, ...(said.id === undefined ? {} : { id }), ...(named ? { body } : {}) }
        answers.add((await session.refused(operation, withId, '404 E_NOT_FOUND')).text)
      }
    }
    same(answers.size, 1, 'how many different problem documents')
    for (const id of [NOWHERE, 'x', ground.id]) {
      answers.add((await session.refused('updateApiKey', { id, body: {} }, '404 E_NOT_FOUND')).text)
      answers.add((await session.refused('revokeApiKey', { id }, '404 E_NOT_FOUND')).text)
    }
    same(answers.size, 2, 'how many different problem documents, with that of an API key')
  },
}

const NO_JSON = ['{', '{"name":"x",}', '{"name":"x"} // c', '{"name":NaN}', '\ufeff{"name":"x"}']
const NO_UTF8 = [[0xff], [0xc0, 0xaf], [0xed, 0xa0, 0x80]]

const NO_OPERATIONS = [null, {}, 'wrap', 7, [], [7], [null], [[]], [{}], [{ op: '__proto__' }]]

/** Queries below `/v1` that must be refused. */
const QUERIES = `
  audit?limit=0 audit?limit=-1 audit?limit=1e3 audit?limit= audit?limit=%2B5 audit?limit=5&limit=5
  audit?offset=-1 audit?offset=99999999999999999999 audit?after_id=x audit?order=up
  audit?action=key.steal audit?key_id=users audit?date_from=2026-02-30T00:00:00Z
  audit?date_from=2026-02-03 audit?date_from=2026-02-03T24:00:00Z audit?date_to=2026-02-03T00:00:00
  audit?date_to=1 audit?user=x audit?__proto__=x audit/verify?limit=1 
  keys?status=alive keys?limit=0 keys?offset=1.5 keys?name=%00 keys?order=asc api-keys?limit=0
  api-keys?status=active usage?month=2026-13 usage?month=2026 usage?day=2026-05-31`
  .trim()
  .split(/\s+/)
