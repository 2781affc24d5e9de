// `exactOptionalPropertyTypes` of an application: an option that may be left out may also be undefined, `{ deks: { maxAgeMs: env.MAX_AGE } }` say.
import { describe, expect, expectTypeOf, it } from 'vitest'
import type {
  AwsMessageOptions,
  BackfillOptions,
  CloakOptions,
  InspectOptions,
  PostgresOptions,
  TransitOptions,
} from '../../../packages/cli/src/backfill.js'
import type { AllowedKeys, BrokerOptions } from '../../../packages/sdk/src/broker.js'
import type {
  ApiKeyChanges,
  CallOptions,
  ClientOptions,
  DecryptManyOptions,
  DekOptions,
  EncryptManyOptions,
  EncryptOptions,
  EntriesOptions,
  EntryFilter,
  Field,
  HashOptions,
  IndexOptions,
  ListEntriesOptions,
  ListKeysOptions,
  ModelOptions,
  NewApiKeyOptions,
  RewrapOptions,
  RowsOptions,
  TextOptions,
} from '../../../packages/sdk/src/index.js'
import { createClient } from '../../../packages/sdk/src/index.js'
import { type ExportedKey, type OpenExportOptions, openExport } from '../../../packages/sdk/src/offline.js'
import type { DecryptStreamOptions, EncryptStreamOptions, RangeOptions } from '../../../packages/sdk/src/streams.js'
import { createTestService, type TestFailure, type TestServiceOptions } from '../../../packages/sdk/src/testing.js'

/** The same, with every member that may be left out undefined if one likes. */
type Undefinable<T> = { [K in keyof T]: object extends Pick<T, K> ? T[K] | undefined : T[K] }

/** Without what must not be undefined: a forgotten variable would take protection away. */
type Loose<T> = Omit<T, 'context' | 'keyIds'>

describe('an option that may be left out', () => {
  it('may be undefined, in the types', () => {
    expectTypeOf<Undefinable<{ a?: 1 }>>().not.toExtend<{ a?: 1 }>() // control
    expectTypeOf<Undefinable<AllowedKeys>>().toExtend<AllowedKeys>()
    expectTypeOf<Undefinable<ApiKeyChanges>>().toExtend<ApiKeyChanges>()
    expectTypeOf<Undefinable<AwsMessageOptions>>().toExtend<AwsMessageOptions>()
    expectTypeOf<Undefinable<CloakOptions>>().toExtend<CloakOptions>()
    expectTypeOf<Undefinable<TransitOptions>>().toExtend<TransitOptions>()
    expectTypeOf<Undefinable<BackfillOptions>>().toExtend<BackfillOptions>()
    expectTypeOf<Undefinable<InspectOptions>>().toExtend<InspectOptions>()
    expectTypeOf<Undefinable<PostgresOptions>>().toExtend<PostgresOptions>()
    expectTypeOf<Undefinable<BrokerOptions>>().toExtend<BrokerOptions>()
    type Limits = NonNullable<BrokerOptions['limits']>
    expectTypeOf<Undefinable<Limits>>().toExtend<Limits>()
    expectTypeOf<Undefinable<CallOptions>>().toExtend<CallOptions>()
    type Connect = Omit<ClientOptions, 'secret'>
    expectTypeOf<Undefinable<Connect>>().toExtend<Connect>()
    expectTypeOf<Undefinable<ClientOptions>>().not.toExtend<ClientOptions>() // a forgotten secret
    type Open = Omit<DecryptManyOptions<'a', 'text'>, 'as' | 'context' | 'keyIds'> // which decides on the type of what is opened, as `index` of what is sealed
    expectTypeOf<Undefinable<Open>>().toExtend<Open>()
    expectTypeOf<Undefinable<DekOptions>>().toExtend<DekOptions>()
    type Seal = Omit<EncryptManyOptions<'a', { a: string }>, 'index' | 'context'>
    expectTypeOf<Undefinable<Seal>>().toExtend<Seal>()
    type Encrypt = Loose<EncryptOptions>
    expectTypeOf<Undefinable<Encrypt>>().toExtend<Encrypt>()
    type Stream = Loose<EncryptStreamOptions>
    expectTypeOf<Undefinable<Stream>>().toExtend<Stream>()
    type Decrypt = Loose<DecryptStreamOptions>
    expectTypeOf<Undefinable<Decrypt>>().toExtend<Decrypt>()
    type Range = Loose<RangeOptions>
    expectTypeOf<Undefinable<Range>>().toExtend<Range>()
    expectTypeOf<Undefinable<EncryptOptions>>().not.toExtend<EncryptOptions>() // a forgotten context
    expectTypeOf<Undefinable<DecryptStreamOptions>>().not.toExtend<DecryptStreamOptions>()
    expectTypeOf<Undefinable<EntriesOptions>>().toExtend<EntriesOptions>()
    expectTypeOf<Undefinable<EntryFilter>>().toExtend<EntryFilter>()
    expectTypeOf<Undefinable<ExportedKey>>().toExtend<ExportedKey>()
    expectTypeOf<Undefinable<HashOptions>>().toExtend<HashOptions>()
    expectTypeOf<Undefinable<IndexOptions>>().toExtend<IndexOptions>()
    expectTypeOf<Undefinable<ListEntriesOptions>>().toExtend<ListEntriesOptions>()
    expectTypeOf<Undefinable<ListKeysOptions>>().toExtend<ListKeysOptions>()
    type Of = ModelOptions<{ a: Field<string> }, Record<never, never>, 'full', 'envelope'>
    expectTypeOf<Undefinable<Of>>().toExtend<Of>()
    expectTypeOf<Undefinable<NewApiKeyOptions>>().toExtend<NewApiKeyOptions>()
    expectTypeOf<Undefinable<OpenExportOptions>>().toExtend<OpenExportOptions>()
    expectTypeOf<Undefinable<RewrapOptions>>().toExtend<RewrapOptions>()
    expectTypeOf<Undefinable<RowsOptions>>().toExtend<RowsOptions>()
    expectTypeOf<Undefinable<TestFailure>>().toExtend<TestFailure>()
    expectTypeOf<Undefinable<TestServiceOptions>>().toExtend<TestServiceOptions>()
    expectTypeOf<Undefinable<TextOptions>>().toExtend<TextOptions>()
  })

  it('is then as if it were left out', async () => {
    const deks = { maxMessages: undefined, maxBytes: undefined, maxAgeMs: undefined, cache: undefined }
    const more = { cacheSize: undefined, cacheMaxAgeMs: undefined, verify: undefined }
    const eaas = createClient({ ...createTestService(), deks: { ...deks, ...more } })
    const { id: keyId } = await eaas.keys.create({ name: 'users' })
    const page = { limit: undefined, offset: undefined }
    expect(await eaas.keys.list({ status: undefined, name: undefined, ...page })).toMatchObject({ count: 1 })
    const sealed = await eaas.encryptMany([{ a: 'x' }], { keyId, fields: ['a'], optional: undefined, dek: undefined })
    expect(await eaas.decryptMany(sealed, { fields: ['a'], optional: undefined })).toEqual([{ a: 'x' }])
    const exported = await eaas.keys.export(keyId)
    const key = openExport({ ...exported, name: undefined, hash_key_hex: undefined })
    expect(sealed[0] && (await key.decryptText(sealed[0].a))).toBe('x')
    eaas.close()
  })
})
