// What a newcomer is told after a wrong call: what is wrong, and the one thing to do about it.
import { describe, expect, it } from 'vitest'
import { type Client, createClient, number, text } from '../../../packages/sdk/src/index.js'
import { failure } from '../../../packages/sdk/src/test-support/clients.js'
import { createTestService } from '../../../packages/sdk/src/testing.js'

const service = createTestService()
const eaas: Client = createClient(service)
const { id: keyId } = await eaas.keys.create({ name: 'users' })
const people = eaas.model({
  name: 'people',
  keyId,
  bind: ['id'],
  warn: false,
  fields: {
    name: text({ index: 'name_index' }),
    note: text().optional(),
    born: text().nullable(),
    age: number().optional(),
  },
  indexes: {
    part_index: { ngram: 'name', length: 3, bits: 8, acceptLeakage: true },
    both_index: { fields: ['name', 'age'] },
  },
})
const row = await people.encrypt({ id: 1, name: 'Ada', born: null })
const limitedService = createTestService()
limitedService.failNext({ operation: 'listKeys', code: 'E_MISSING_PERMISSION', times: 9 })
const limitedClient = createClient(limitedService)
const readingService = createTestService()
readingService.failNext({ operation: 'createKey', code: 'E_MISSING_PERMISSION', times: 9 })
const readingClient = createClient(readingService)
const withApiKey = (apiKey: unknown) => createClient({ ...service, apiKey: apiKey as string }).keys.list()
const model = (options: object) => async () =>
  eaas.model({ name: 'x', keyId, bind: false, warn: false, ...options } as never)

type Hint = [title: string, call: () => Promise<unknown>, message: RegExp, hint: RegExp]
// biome-ignore lint/suspicious/noExplicitAny: what TypeScript refuses, JavaScript passes
const any = (value: unknown) => value as any

const HINTS: Hint[] = [
  ['an API key with the line break of its file', () => withApiKey(`${service.apiKey}\n`), /visible ASCII/, /Trim it/],
  ['one from a function', () => withApiKey(() => ` ${service.apiKey}`), /visible ASCII/, /Trim it/],
  [
    'one with the scheme of its header',
    () => withApiKey(`Bearer ${service.apiKey}`),
    /visible ASCII/,
    /without "Bearer"/,
  ],
  ['an empty one', () => withApiKey(''), /visible ASCII/, /where the API key is read from/],
  [
    'null for options',
    async () => any(createClient)(null),
    /takes an object of options, got null/,
    /baseUrl, .*apiKey/,
  ],
  ['no keyId', () => eaas.encrypt('x', any({})), /^keyId is missing$/, /keys\.ensure/],
  ['a model without one', model({ keyId: undefined, fields: { a: text() } }), /^keyId is missing$/, /keys\.ensure/],
  [
    'the key in place of its id',
    () => eaas.hash('x', any({ keyId: { id: keyId } })),
    /^keyId: .*UUID/,
    /`id` of a key/,
  ],
  [
    'a promise of a key',
    model({ keyId: Promise.resolve(keyId), fields: { a: text() } }),
    /^keyId: .*UUID/,
    /await eaas\.keys/,
  ],
  ['destroy() without the name', () => any(eaas.keys).destroy(keyId), /^confirm must be text/, /key's name.*second/],
  [
    'the name in an object',
    () => any(eaas.keys).destroy(keyId, { confirm: 'users' }),
    /^confirm must be text/,
    /key's name/,
  ],
  [
    'a name in place of options',
    () => any(eaas.keys).ensure('users'),
    /takes an object of options, got string/,
    /^Its options: name\.$/,
  ],
  ['a name that is taken', () => eaas.keys.create({ name: 'users' }), /E_NAME_TAKEN/, /keys\.ensure/],
  [
    'ensure() with too few rights',
    () => limitedClient.keys.ensure({ name: 'users' }),
    /E_MISSING_PERMISSION/,
    /id of the key, or grant .*keys:read/,
  ],
  [
    'ensure() of a missing key, which the API key may not create',
    () => readingClient.keys.ensure({ name: 'uesrs' }),
    /E_MISSING_PERMISSION/,
    /^No key is named "uesrs"\. Pass the id of the key, or grant /,
  ],
  [
    'a missing field',
    () => people.encrypt(any({ id: 1, born: null })),
    /expected text, got undefined/,
    /^Give it.*optional\(\)/,
  ],
  [
    'null in one',
    () => people.encrypt(any({ id: 1, name: null, born: null })),
    /expected text, got null/,
    /^Give it.*nullable\(\)/,
  ],
  [
    'a row without its id',
    () => people.encrypt(any({ name: 'Ada', born: null })),
    /column of bind .*, got undefined/,
    /before it is encrypted.*select/,
  ],
  [
    'a row that is encrypted already',
    () => people.encrypt(any(row)),
    /expected text, got an object/,
    /Decrypt it first/,
  ],
  [
    'a plain row with its index',
    () => people.encrypt(any({ id: 1, name: 'Ada', born: null, name_index: 'x' })),
    /would overwrite the column "name_index"/,
    /Leave it out of the row/,
  ],
  [
    'the result of a query',
    () => any(people).decryptMany({ rows: [row], rowCount: 1 }),
    /must be an array, got an object/,
    /`\.rows`/,
  ],
  [
    'the result, to encryptMany',
    () => any(eaas).encryptMany({ rows: [] }, { keyId, fields: ['a'] }),
    /must be an array/,
    /`\.rows`/,
  ],
  [
    'the result, to rewrap',
    async () =>
      any(people)
        .rewrap({ rows: [row] })
        .next(),
    /must be an array or another iterable/,
    /`\.rows`/,
  ],
  ['the result, to decrypt', () => any(people).decrypt({ rows: [row] }), /the value is undefined/, /one of its `rows`/],
  ['one row in place of many', () => any(people).decryptMany(row), /must be an array, got an object/, /list of rows/],
  ['many rows in place of one', () => any(people).decrypt([row]), /must be an object, got an array/, /one row/],
  [
    'two characters of an index of three',
    () => people.index({ name: { contains: 'Ad' } }),
    /needs at least 3 characters, got 2/,
    /^Search for at least 3 characters/,
  ],
  [
    'a part that has no index',
    () => people.index(any({ name: { startsWith: 'Ad' } })),
    /no index of kind prefix/,
    /Declare it in `indexes`/,
  ],
  ['a value in place of a query', () => any(people).index('Ada'), /must be an object/, /\{ name: … \}/],
  [
    'a query of an unknown field',
    () => any(people).index({ nam: 'Ada' }),
    /"nam" has no index/,
    /Fields with an index: name, age\./,
  ],
  [
    'a query with the object around a field',
    () =>
      any(eaas)
        .model({ ...{ name: 'm', keyId, bind: false }, fields: { 'address.street': text({ index: 'street_index' }) } })
        .index({ address: { street: 'S' } }),
    /"address" has no index/,
    /^Fields with an index: address\.street\.$/,
  ],
  ['a pattern', () => any(people).index({ name: { like: 'A%' } }), /search for text/, /list|indexes/],
  ['bind as text', model({ bind: 'id', fields: { a: text() } }), /^bind must list/, /\['id'\]/],
  [
    'an index without a column',
    model({ fields: { a: text({ index: any(true) }) } }),
    /column must have a name/,
    /index: 'a_index'/,
  ],
  [
    'a normalizer as text',
    model({ fields: { a: text({ index: 'i', normalize: any('trim') }) } }),
    /normalize must contain/,
    /\['trim'/,
  ],
  [
    'an index of one field',
    model({ fields: { a: text() }, indexes: { i: { fields: ['a'] } } }),
    /at least two fields/,
    /`index` of the field/,
  ],
  [
    'an index of no field',
    model({ fields: { a: text() }, indexes: { i: { fields: ['a', 'b'] } } }),
    /names "b"/,
    /fields of the model/,
  ],
  [
    'a field as text',
    () => any(eaas).encryptMany([{ a: 'x' }], { keyId, fields: 'a' }),
    /fields must name/,
    /\['email'\]/,
  ],
  [
    'an envelope that was not awaited',
    () => eaas.decryptText(any(eaas.encrypt('x', { keyId }))),
    /not an envelope/,
    /^Await encrypt\(\)/,
  ],
  ['a value of a model alone', () => eaas.decryptText(row.name), /could not decrypt/, /by its model/],
]

describe('a wrong call is told what to do', () => {
  it.each(HINTS)('%s', async (_, call, message, hint) => {
    const error = await failure((async () => call())())
    expect(error.message).toMatch(message)
    expect(error.hint).toMatch(hint)
    expect(`${error.message} ${error.hint}`).not.toContain(service.apiKey)
  })
})
