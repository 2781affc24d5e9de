/** Envelope mode, blind indexes and server mode: what can be opened, and what is refused. */
import {
  decodeBase64,
  decodeHex,
  encodeBase64,
  encodeHex,
  encodeUtf8,
  MAX_BATCH_ELEMENTS,
  MAX_BLINDED_ELEMENTS,
  MAX_SERVER_MODE_BYTES,
  type wire,
} from '@eaas/protocol'
import { blindValue, computeBlindHash, deriveBlindHashKeys, finalizeBlinded } from '@eaas/protocol/blind-hash'
import { openExport } from '@eaas/sdk/offline'
import type { Session } from '../session.js'
import { type Cases, check, each, flip, needs, randomBase64, same } from './case.js'

const NOT_BASE64 = ['AAA', 'AAB=', 'AAAA\n', '_-==', 'A===', 'x y=', 7, null, ['AAAA']]

async function wrapped(session: Session, use: object = {}) {
  const { id } = await session.newKey()
  const dek = randomBase64()
  return { id, dek, ...(await session.ok('wrap', { id, body: { dek, ...use } })) }
}

export const VALUE_CASES: Cases = {
  async 'wrap, unwrap: give back the DEK, under whatever version it was wrapped'(session) {
    const { id, dek, wrapped_key, key_id, key_version } = await wrapped(session)
    same([key_id, key_version], [id, 1], 'key_id and key_version of wrap')
    await session.ok('rotateKey', { id })
    same(await session.ok('unwrap', { id, body: { wrapped_key } }), { dek, key_id: id, key_version: 1 }, 'unwrap')
    const again = await session.ok('wrap', { id, body: { dek } })
    same(again.key_version, 2, 'key_version of wrap after a rotation')
    check(again.wrapped_key !== wrapped_key, 'one DEK is wrapped twice as the same text')
  },
  async 'rewrap: wraps under the current version, and shows no DEK'(session) {
    const { id, dek, wrapped_key } = await wrapped(session)
    await session.ok('rotateKey', { id })
    const { text } = await session.call('rewrap', { id, body: { wrapped_key } })
    check(!text.includes(dek), 'the answer shows the DEK')
    const rewrapped = await session.ok('rewrap', { id, body: { wrapped_key } })
    same(rewrapped.key_version, 2, 'key_version')
    same((await session.ok('unwrap', { id, body: { wrapped_key: rewrapped.wrapped_key } })).dek, dek, 'the DEK')
  },
  async 'wrap: takes a DEK as canonical base64 of exactly 32 bytes that are not all zero, and nothing else'(session) {
    const { id } = await session.newKey()
    const lengths = [0, 16, 31, 33].map((bytes) => randomBase64(bytes))
    const dek = Buffer.alloc(32, 0xfb).toString('base64') // +/v7+/v7 …, and ends in +/s=
    await session.ok('wrap', { id, body: { dek } })
    const trailing = dek.replace('s=', 'v=')
    const spellings = [dek.replaceAll('+', '-'), dek.replace('=', ''), ` ${dek}`, `${dek}\n`, trailing, '=']
    for (const wrong of [...lengths, Buffer.alloc(32).toString('base64'), ...spellings, ...NOT_BASE64])
      await session.refused('wrap', { id, body: { dek: wrong } }, '400 E_VALIDATION')
  },
  async 'unwrap, rewrap: refuse a wrapped key that is no canonical base64 with 400 E_VALIDATION'(session) {
    const { id } = await session.newKey()
    for (const wrapped_key of NOT_BASE64)
      for (const operation of ['unwrap', 'rewrap'] as const)
        await session.refused(operation, { id, body: { wrapped_key } }, '400 E_VALIDATION')
  },
  async 'unwrap, rewrap: refuse a wrapped key that was altered or is another key’s with 403 E_WRAPPED_KEY, all alike (wrapped-key.md 3)'(
    session,
  ) {
    const { id, wrapped_key } = await wrapped(session)
    const other = await wrapped(session)
    const altered = Array.from({ length: 65 }, (_, at) => flip(wrapped_key, at))
    const cut = Buffer.from(wrapped_key, 'base64').subarray(0, 64).toString('base64')
    const answers = new Set<string>()
    for (const wrong of [...altered, cut, other.wrapped_key, randomBase64(66), randomBase64(1), ''])
      answers.add((await session.refused('unwrap', { id, body: { wrapped_key: wrong } }, '403 E_WRAPPED_KEY')).text)
    for (const wrong of [flip(wrapped_key, 20), other.wrapped_key])
      answers.add((await session.refused('rewrap', { id, body: { wrapped_key: wrong } }, '403 E_WRAPPED_KEY')).text)
    same(answers.size, 1, 'how many different problem documents')
    const { total } = await session.ok('listAudit', { query: { key_id: id, action: 'key.unwrap' } })
    same(total, 0, 'entries of refused calls')
  },
  async 'wrap, unwrap, rewrap: bind a wrapped key of format 2 to its purpose and context (wrapped-key-v2.md 3)'(
    session,
  ) {
    const use = { purpose: 'stream', context: { model: 'customers', row: '7 客户' } }
    const { id, dek, wrapped_key } = await wrapped(session, use)
    const unbound = await session.ok('wrap', { id, body: { dek } })
    const begins = [unbound.wrapped_key, wrapped_key].map((text) => Buffer.from(text, 'base64')[0])
    same(begins, [1, 2], 'the first bytes')
    const swapped = { context: { row: '7 客户', model: 'customers' }, purpose: 'stream' }
    same((await session.ok('unwrap', { id, body: { wrapped_key, ...swapped } })).dek, dek, 'the DEK')
    const others: object[] = [
      {},
      { purpose: 'stream' },
      { context: use.context },
      { ...use, purpose: 'data' },
      { ...use, context: { ...use.context, row: '8' } },
      { ...use, context: { model: 'customers' } },
      { ...use, context: { ...use.context, more: '' } },
    ]
    for (const operation of ['unwrap', 'rewrap'] as const) {
      for (const other of others)
        await session.refused(operation, { id, body: { wrapped_key, ...other } }, '403 E_WRAPPED_KEY')
      const body = { wrapped_key: unbound.wrapped_key, purpose: 'data' }
      await session.refused(operation, { id, body }, '403 E_WRAPPED_KEY')
    }
    const rewrapped = await session.ok('rewrap', { id, body: { wrapped_key, ...use } })
    await session.ok('unwrap', { id, body: { ...use, wrapped_key: rewrapped.wrapped_key } })
    const byContext = await session.ok('wrap', { id, body: { dek, context: { row: '7' } } })
    const stated = { wrapped_key: byContext.wrapped_key, purpose: 'data', context: { row: '7' } }
    same((await session.ok('unwrap', { id, body: stated })).dek, dek, 'the DEK of a context without a purpose')
  },
  async 'wrap, unwrap, rewrap: refuse an unknown purpose, and a context that is none, with 400 E_VALIDATION (wrapped-key-v2.md 2)'(
    session,
  ) {
    const { id, dek, wrapped_key } = await wrapped(session)
    const nine = Object.fromEntries(Array.from({ length: 9 }, (_, at) => [`a${at}`, '']))
    const names = ['', '1a', '_a', 'é', 'a b', 'a'.repeat(65)]
    const values = [1, 'x'.repeat(129), 'x\0', '\ud800'].map((value) => ({ a: value }))
    const contexts: unknown[] = [7, 'x', [], null, nine, ...values, ...names.map((name) => ({ [name]: '' }))]
    const wrong = [
      ...['steal', 'Data', '', 7, null, ['data']].map((purpose) => ({ purpose })),
      ...contexts.map((context) => ({ context })),
    ]
    for (const use of wrong) {
      await session.refused('wrap', { id, body: { dek, ...use } }, '400 E_VALIDATION')
      for (const operation of ['unwrap', 'rewrap'] as const)
        await session.refused(operation, { id, body: { wrapped_key, ...use } }, '400 E_VALIDATION')
    }
    const most = { purpose: 'index', context: { ['a'.repeat(64)]: '客'.repeat(128), 'a.-_9': '' } }
    await session.ok('wrap', { id, body: { dek, ...most } })
  },
  async 'hash: answers one text of 64 hexadecimal digits for a value and key, before and after a rotation'(session) {
    const { id: key_id } = await session.newKey()
    const hash = async (value: string, id = key_id) => (await session.ok('hash', { body: { key_id: id, value } })).hash
    const first = await hash('ada@example.org')
    check(/^[0-9a-f]{64}$/.test(first), `not 64 hexadecimal digits: ${first}`)
    same(await hash('ada@example.org'), first, 'the hash once more')
    await session.ok('rotateKey', { id: key_id })
    same(await hash('ada@example.org'), first, 'the hash after a rotation')
    const { secret } = await session.newApiKey({ permissions: ['hash'] })
    const other = await session.ok('hash', { body: { key_id, value: 'ada@example.org' }, apiKey: secret })
    same(other.hash, first, 'the hash for another API key')
  },
  async 'hash: differs for another value or key, and takes values as they are'(session) {
    const { id: key_id } = await session.newKey()
    const { id: other } = await session.newKey()
    const values = ['', 'a', 'A', 'a ', 'é', 'e\u0301', '🗝️', '\0', 'a\0', '\u2028', 'x'.repeat(100_000)]
    const hashes = new Set<string>()
    for (const value of values) hashes.add((await session.ok('hash', { body: { key_id, value } })).hash)
    hashes.add((await session.ok('hash', { body: { key_id: other, value: 'a' } })).hash)
    same(hashes.size, values.length + 1, 'how many different hashes')
  },
  async 'indexSecret: answers 32 bytes for a name and key, before and after a rotation, which the exported key gives too (blind-index.md 4)'(
    session,
  ) {
    const { id } = await session.newKey()
    const { id: other } = await session.newKey()
    const secretOf = async (name: string, key_id = id) => {
      const answer = await session.ok('indexSecret', { id: key_id, body: { name } })
      same(answer, { secret: answer.secret, key_id }, 'the answer')
      return answer.secret
    }
    const names = ['customers', 'Customers', 'customers ', 'é', 'e\u0301', '🗝️', 'x'.repeat(255)]
    const secrets = [await secretOf('customers', other)]
    for (const name of names) secrets.push(await secretOf(name))
    same(new Set(secrets).size, names.length + 1, 'how many different secrets')
    await session.ok('rotateKey', { id })
    same(await secretOf('customers'), secrets[1], 'the secret after a rotation')
    const offline = openExport(await session.ok('exportKey', { id }))
    for (const [at, name] of names.entries())
      same(Buffer.from(await offline.indexSecret(name)).toString('base64'), secrets[at + 1], `the secret of ${name}`)
    offline.close()
    for (const name of ['', 'x'.repeat(256), 'a\0', '\ud800', 7, null, undefined])
      await session.refused('indexSecret', { id, body: { name } }, '400 E_VALIDATION')
  },
  async 'blindHash, getKey: evaluate values unseen, proved by the public key of getKey, before and after a rotation, as the exported key does (blind-hash.md 4)'(
    session,
  ) {
    const { id: key_id } = await session.newKey()
    const { id: other } = await session.newKey()
    const publicKeyOf = async (id: string) => (await session.ok('getKey', { id })).blind_hash_public_key ?? ''
    const hashesOf = async (texts: string[], id = key_id, apiKey?: string) => {
      const values = texts.map((text) => blindValue(encodeUtf8(text)))
      const body = { key_id: id, elements: values.map(({ blinded }) => encodeBase64(blinded)) }
      const answer = await session.ok('blindHash', { body, ...(apiKey === undefined ? {} : { apiKey }) })
      same([answer.key_id, answer.suite], [id, 'ristretto255-SHA512'], 'key_id and suite')
      const evaluated = { elements: answer.elements.map(decodeBase64), proof: decodeBase64(answer.proof) }
      return finalizeBlinded(values, evaluated, decodeBase64(await publicKeyOf(id))).map(encodeHex)
    }
    const texts = ['', 'a', 'A', 'é', 'x'.repeat(65_535)]
    const hashes = await hashesOf(texts)
    const [ofOther] = await hashesOf(['a'], other)
    same(new Set([...hashes, ofOther]).size, texts.length + 1, 'how many different hashes')
    const publicKey = await publicKeyOf(key_id)
    await session.ok('rotateKey', { id: key_id })
    same(await publicKeyOf(key_id), publicKey, 'the public key after a rotation')
    const { secret } = await session.newApiKey({ permissions: ['hash'] })
    same(await hashesOf(texts, key_id, secret), hashes, 'the hashes after a rotation')
    const { hash_key_hex } = await session.ok('exportKey', { id: key_id })
    const keys = deriveBlindHashKeys(decodeHex(hash_key_hex))
    same(encodeBase64(keys.publicKey), publicKey, 'the public key of the exported key')
    const computed = texts.map((text) => encodeHex(computeBlindHash(keys, encodeUtf8(text))))
    same(computed, hashes, 'the hashes by the exported key')
  },
  async 'blindHash, batch: take 1 to 256 canonical elements other than the identity, in a batch 1,024, and refuse others with 400 E_VALIDATION (blind-hash.md 4)'(
    session,
  ) {
    const { id: key_id } = await session.newKey()
    const element = encodeBase64(blindValue(encodeUtf8('a')).blinded)
    const many = (count: number, last = element) => [...Array.from({ length: count - 1 }, () => element), last]
    const body = { key_id, elements: many(MAX_BLINDED_ELEMENTS), suite: 'ristretto255-SHA512' }
    const { elements } = await session.ok('blindHash', { body })
    same(new Set(elements).size, 1, 'how many answers to one element')
    const odd = `AQ${element.slice(2)}`
    const wrong = [element.slice(1), odd, `${'A'.repeat(43)}=`, `${'/'.repeat(42)}8=`, ...NOT_BASE64]
    const bodies: object[] = [
      ...wrong.map((one) => ({ elements: [element, one] })),
      ...[[], many(MAX_BLINDED_ELEMENTS + 1), element, null].map((wrongElements) => ({ elements: wrongElements })),
      ...['P256-SHA256', 'ristretto255-sha512', '', null, 7].map((suite) => ({ suite })),
    ]
    for (const change of bodies)
      await session.refused('blindHash', { body: { key_id, elements: [element], ...change } }, '400 E_VALIDATION')
    const item = { op: 'blind_hash', key_id }
    const few = [
      { ...item, elements: [element] },
      { ...item, elements: [odd] },
      { op: 'hash', key_id, value: 'x' },
    ]
    const { results } = await session.ok('batch', { body: { operations: few } })
    same(each(results, 'status'), [200, 400, 200], 'the statuses in a batch')
    const [first] = results as { body: wire.BlindHashed }[]
    same(first?.body.elements, elements.slice(0, 1), 'the element in a batch')
    const all = Array.from({ length: MAX_BATCH_ELEMENTS / MAX_BLINDED_ELEMENTS }, () => ({ ...item, ...body }))
    const more = { operations: [...all, { ...item, elements: [element] }] }
    await session.refused('batch', { body: more }, '400 E_VALIDATION')
  },
  async 'encrypt, decrypt: give back texts and bytes, which the exported key opens too (envelope.md 5)'(session) {
    needs(session, 'open')
    const { id: key_id } = await session.newKey()
    const bundles = []
    const plaintexts = ['', 'é 🗝️', 'e\u0301', '\u2028', 'يوم', 'a\0b', 'é'.repeat(MAX_SERVER_MODE_BYTES / 2)]
    for (const plaintext of plaintexts)
      bundles.push(await session.ok('encrypt', { body: { key_id, plaintext, encoding: 'utf8' } }))
    await session.ok('rotateKey', { id: key_id })
    const { key_version } = await session.ok('encrypt', { body: { key_id, plaintext: 'x' } })
    same(key_version, 2, 'key_version of encrypt after a rotation')
    const offline = openExport(await session.ok('exportKey', { id: key_id }))
    for (const [at, bundle] of bundles.entries()) {
      const { plaintext } = await session.ok('decrypt', { body: { ...bundle, encoding: 'utf8' } })
      same(plaintext, plaintexts[at], 'decrypt')
      same(await offline.decryptText(bundle), plaintext, 'the bundle opened by the exported key')
    }
    offline.close()
  },
  async 'encrypt, decrypt: take text and base64 as they are told: at most 65,536 bytes, and never a guess'(session) {
    needs(session, 'open')
    const { id: key_id } = await session.newKey()
    const bundle = await session.ok('encrypt', { body: { key_id, plaintext: '//8=', encoding: 'base64' } })
    same((await session.ok('decrypt', { body: { ...bundle, encoding: 'base64' } })).plaintext, '//8=', 'the bytes')
    await session.refused('decrypt', { body: { ...bundle, encoding: 'utf8' } }, '422 E_DECRYPTION_FAILED')
    const text = await session.ok('encrypt', { body: { key_id, plaintext: '//8=', encoding: 'utf8' } })
    same((await session.ok('decrypt', { body: { ...text, encoding: 'utf8' } })).plaintext, '//8=', 'the text')
    for (const wrong of [
      { plaintext: 'AAA', encoding: 'base64' },
      { plaintext: 'AAAA', encoding: 'hex' },
      { plaintext: 1 },
    ])
      await session.refused('encrypt', { body: { key_id, ...wrong } }, '400 E_VALIDATION')
    const base64 = (length: number) => ({ plaintext: Buffer.alloc(length).toString('base64'), encoding: 'base64' })
    await session.ok('encrypt', { body: { key_id, ...base64(MAX_SERVER_MODE_BYTES) } })
    const longText = { plaintext: `${'é'.repeat(MAX_SERVER_MODE_BYTES / 2)}x`, encoding: 'utf8' }
    for (const large of [longText, base64(MAX_SERVER_MODE_BYTES + 1)])
      await session.refused('encrypt', { body: { key_id, ...large } }, '400 E_PLAINTEXT_TOO_LARGE')
  },
  async 'decrypt: refuses what was altered with 422 E_DECRYPTION_FAILED, all alike, and what has no form with 400'(
    session,
  ) {
    needs(session, 'open')
    const { id: key_id } = await session.newKey()
    const { id: other } = await session.newKey()
    const bundle = await session.ok('encrypt', { body: { key_id, plaintext: 'a secret' } })
    const { ciphertext, iv, wrapped_key } = bundle
    const answers = new Set<string>()
    for (const change of [
      ...[0, 9, 23].map((at) => ({ ciphertext: flip(ciphertext, at) })),
      ...[ciphertext.slice(0, 20), ''].map((cut) => ({ ciphertext: cut })),
      { iv: flip(iv, 0) },
      ...[flip(wrapped_key, 40), wrapped_key.slice(0, 40), ''].map((wrong) => ({ wrapped_key: wrong })),
      { key_version: 2 },
      { key_id: other },
    ]) {
      const said = { body: { ...bundle, ...change } }
      answers.add((await session.refused('decrypt', said, '422 E_DECRYPTION_FAILED')).text)
    }
    same(answers.size, 1, 'how many different problem documents')
    for (const wrong of [{ iv: 'AAAA' }, { key_version: 0 }, { key_version: '1' }, { ciphertext: '_' }])
      await session.refused('decrypt', { body: { ...bundle, ...wrong } }, '400 E_VALIDATION')
  },
  async 'batch: answers each operation in order, as its call alone would be, and one that fails spoils no other'(
    session,
  ) {
    const { id: key_id, dek, wrapped_key } = await wrapped(session)
    const { hash } = await session.ok('hash', { body: { key_id, value: 'x' } })
    const { results } = await session.ok('batch', {
      body: {
        operations: [
          { op: 'hash', key_id, value: 'x' },
          { op: 'unwrap', key_id, wrapped_key: flip(wrapped_key, 20) },
          { op: 'unwrap', key_id, wrapped_key },
          { op: 'hash', key_id: 'users', value: 'x' },
          { op: 'wrap', key_id, dek: 'AAAA' },
          { op: 'rewrap', key_id, wrapped_key },
          { op: 'wrap', key_id, dek },
          { op: 'indexSecret', key_id, name: 'customers' },
        ],
      },
    })
    same(each(results, 'status'), [200, 403, 200, 404, 400, 200, 200, 200], 'the statuses')
    same(results[0]?.body, { hash, key_id }, 'the hash')
    same(results[2]?.body, { dek, key_id, key_version: 1 }, 'the unwrapped DEK')
    const forged = { id: key_id, body: { wrapped_key: flip(wrapped_key, 20) } }
    const alone = await session.refused('unwrap', forged, '403 E_WRAPPED_KEY')
    same(results[1]?.body, alone.body, 'the problem document')
    const { logs } = await session.ok('listAudit', { query: { key_id, order: 'asc', limit: 6 } })
    const actions = ['key.create', 'key.wrap', 'key.unwrap', 'key.wrap', 'key.wrap', 'key.index_secret']
    same(each(logs, 'action'), actions, 'the entries')
  },
  async 'batch: takes 1 to 1,000 operations, and refuses an unknown one as a whole'(session) {
    const { id: key_id } = await session.newKey()
    const hash = { op: 'hash', key_id, value: 'x' }
    const many = (count: number) => ({ body: { operations: Array.from({ length: count }, () => hash) } })
    same((await session.ok('batch', many(1_000))).results.length, 1_000, 'how many results')
    await session.refused('batch', many(1_001), '400 E_VALIDATION')
    for (const op of ['rotate', undefined])
      await session.refused('batch', { body: { operations: [hash, { ...hash, op }] } }, '400 E_VALIDATION')
  },
  async 'batch: checks the permission of each operation by itself'(session) {
    const { id: key_id, dek, wrapped_key } = await wrapped(session)
    const { secret: apiKey } = await session.newApiKey({ permissions: ['encrypt'] })
    const operations = [
      { op: 'unwrap', key_id, wrapped_key },
      { op: 'wrap', key_id, dek },
      { op: 'rewrap', key_id, wrapped_key },
      { op: 'hash', key_id, value: 'x' },
    ]
    const { results } = await session.ok('batch', { body: { operations }, apiKey })
    same(each(results, 'status'), [403, 200, 403, 200], 'the statuses')
    same((results[0]?.body as wire.Problem | undefined)?.detail, 'missing permission: unwrap', 'detail')
  },
}
