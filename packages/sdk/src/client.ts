/** The client, which an application creates once and keeps. */
import { type Context, DEK_MAX_MESSAGES, type Envelope, type EnvelopeV1, type EnvelopeV2 } from '@eaas/protocol'
import type { EngineName } from './engines/engine.js'
import { InvalidInputError, isEaasError } from './errors.js'
import type * as Failures from './failures.js'
import { resolveBaseUrl } from './http/base-url.js'
import type { ApiKey } from './http/calls.js'
import type { ClientEvent } from './http/events.js'
import type { Fetch } from './http/fetch.js'
import type { OpenTelemetry } from './http/open-telemetry.js'
import type { AuditContext, Binary, Bytes, DekScope, DemandOptions, SecretOptions } from './input.js'
import {
  assertAuditContext,
  assertFlag,
  assertFormat,
  assertHashable,
  assertKeyId,
  assertOneOf,
  assertOptions,
  assertScope,
  assertWhole,
  copyPlain,
  kindOf,
  MAX_TIMEOUT_MS,
  readDemand,
  readSecrets,
  readSignal,
  readValue,
  takeRows,
  toText,
} from './input.js'
import type { ModelOptions, RowFormat } from './models/definition.js'
import { createModel, type Model } from './models/model.js'
import type { Compounds, Extras, ExtrasOf, Fields } from './models/model-types.js'
import type * as More from './more.js'
import type * as Opening from './opening.js'
import type * as Parts from './parts.js'
import type { Connection } from './parts.js'
import type * as Rare from './rare.js'
import type { OpenDeps } from './records/blocks.js'
import { CLIENT_PARTS } from './records/client-parts.js'
import type {
  DecryptedRecord,
  DecryptManyOptions,
  EncryptedRecord,
  EncryptManyOptions,
  OpenableField,
  SealableField,
} from './records/many-records.js'
import type { StoredEnvelope } from './records/read-envelope.js'
import type { ApiKeys } from './resources/api-keys.js'
import type { Audit } from './resources/audit.js'
import type { CallOptions, Keys } from './resources/keys.js'
import { createResources } from './resources/resources.js'
import type { ServerMode, Service } from './resources/service.js'
import { isPromise, loadOnce, loadPart, type Soon, traced, use } from './waiting.js'

const HOUR_MS = 3_600_000
const MINUTE_MS = 60_000
const MAX_RETRIES = 10
/** Does not compile if an option is missing from its list below. */
const namesOf = <T>(names: Record<keyof T, 0>) => Object.keys(names)
const CLIENT_OPTIONS = namesOf<ClientOptions>({
  ...{ baseUrl: 0, apiKey: 0, engine: 0, fetch: 0, timeoutMs: 0, retries: 0, allowInsecure: 0, deks: 0 },
  ...{ onEvent: 0, openTelemetry: 0, auditContext: 0, secret: 0, acceptWithoutSecret: 0 },
})
const DEK_OPTIONS = namesOf<DekOptions>({
  ...{ maxMessages: 0, maxBytes: 0, maxAgeMs: 0, cache: 0, cacheSize: 0, cacheMaxAgeMs: 0, verify: 0 },
})
const DECRYPT_OPTIONS = namesOf<DecryptOptions>({ context: 0, acceptUnbound: 0, keyIds: 0, signal: 0 })
const ENCRYPT_OPTIONS = namesOf<EncryptOptions>({ keyId: 0, context: 0, envelope: 0, dek: 0, signal: 0 })

export interface DekOptions {
  /** The most messages that one shared DEK of a key seals; 2^20 by default, 2^31 at most. */
  maxMessages?: number | undefined
  /** The most bytes of plaintext that one DEK seals; 64 GiB by default. */
  maxBytes?: number | undefined
  /** How long one DEK seals, in milliseconds; one hour by default, 15 minutes outside Node. */
  maxAgeMs?: number | undefined
  /** `false` keeps no DEK for reading, so that each decryption is an unwrap with an entry in the audit log. */
  cache?: boolean | undefined
  /** The most DEKs of keys and models kept for reading, and the most kept for sealing; 1,024 by default. */
  cacheSize?: number | undefined
  /** How long a DEK is kept for reading after its unwrap, in milliseconds; 5 minutes by default. */
  cacheMaxAgeMs?: number | undefined
  /**
   * `true` unwraps each new wrapped key once before it is used or replaces an old one (`rewrap`), and throws
   * `E_PROTOCOL` if that does not return the same DEK. Without it, data sealed under a wrong answer could never be
   * read. Needs `unwrap`; costs a request and an audit entry for each DEK, and two entries to rewrap format v1.
   */
  verify?: boolean | undefined
}

export interface ClientOptions extends SecretOptions {
  /**
   * The service's URL with its path prefix, without `/v1`. Pages and workers may give a path of their own origin where
   * a broker is mounted, such as `/api/eaas`. If it is left out, each request reads `EAAS_URL` of the environment. If
   * it is `undefined`, the first request throws.
   */
  baseUrl?: string | undefined
  /**
   * The API key, or a function that returns it for each request; see also `expiringApiKey`. All keys that it returns
   * must belong to one caller, since the client opens with DEKs that any of them got: create a client for each tenant
   * or user. Leave it out in pages and workers that call a broker, where the session's cookie authenticates. If it is
   * left out elsewhere, each request reads `EAAS_API_KEY`, and throws if `EAAS_URL` names another service than
   * `baseUrl`.
   */
  apiKey?: ApiKey | undefined
  /** Which implementation of AES-256-GCM encrypts; `auto` by default. */
  engine?: EngineName | undefined
  /** Replaces the global `fetch`, for example with undici's, which takes a dispatcher. */
  fetch?: Fetch | undefined
  /** How long one request may take with all its attempts, in milliseconds; 30,000 by default. */
  timeoutMs?: number | undefined
  /** Allows `http` to another machine, although the network then sees the API key and data keys. False by default. */
  allowInsecure?: boolean | undefined
  /** How often a request that is safe to repeat is tried again; 2 by default, 10 at most. */
  retries?: number | undefined
  /** How long data keys are used, and for how much data. */
  deks?: DekOptions | undefined
  /**
   * Called when a call of the service ends, for each retry, for each use of a DEK that the client already has, and once
   * if it must encrypt in JavaScript. An event holds no value, key or secret. Called synchronously: it should be quick,
   * and must not use the client. Its errors fail no call; `console.error` prints the first one.
   */
  onEvent?: ((event: ClientEvent) => void) | undefined
  /** The module `@opentelemetry/api`: each request has a span, without values or secrets, and sends `traceparent`. */
  openTelemetry?: OpenTelemetry | undefined
  /**
   * How audit entries record the context that data keys are wrapped for, such as a row's `bind` columns: as its
   * `values`, by default, or as `digests` under a key of the tenant, with which a caller who knows a value finds its
   * entries. A broker has an option of its own.
   */
  auditContext?: AuditContext | undefined
}

export interface HashOptions extends CallOptions {
  /** The `id` of the key that makes the blind index. */
  keyId: string
}

export interface EncryptOptions extends CallOptions {
  /** The `id` of the key under which the value is sealed. */
  keyId: string
  /**
   * Binds the value, for example to its table, column and row: it then decrypts only with the same context. A flat
   * object of at most 32 strings, which is not stored (envelope-v2.md 3). By default it is empty, which binds to the
   * key alone. An explicit `undefined` is refused, since it is usually a forgotten variable.
   */
  context?: Context
  /** 2 by default. 1 is the format that clients in other languages read and server mode makes; it has no context. */
  envelope?: 1 | 2 | undefined
  /** Which DEK seals: the key's (`shared`), or one for this value alone (`call` or `record`), which takes a wrap each time. */
  dek?: DekScope | undefined
}

export interface DecryptOptions extends CallOptions, DemandOptions {}

export interface RewrapEnvelopeOptions extends CallOptions {
  /** The context of a value that a model sealed, for which its DEK was wrapped (bindings.md 1 and 5). */
  context?: Context | undefined
}

/**
 * Encrypts, decrypts and calls the service. Its functions need no `this`. Each function that uses the network throws,
 * besides the errors that it documents, `E_API` when the service refuses, `E_NETWORK`, `E_TIMEOUT`, `E_ABORTED`, and
 * `E_PROTOCOL` when the answer violates the contract.
 */
export interface Client extends Service {
  /**
   * Seals text (as UTF-8) or bytes (an ArrayBuffer or any view) under a key, and returns the envelope to store
   * (envelope.md 2). The plaintext never leaves the process. Bytes are read during the call, so the caller may change
   * them afterwards. Uses the network only when the client has no DEK of the key, for one wrap that all waiting calls
   * share. Aborting the signal ends this call, not the shared request.
   * @throws InvalidInputError on text with a lone surrogate, on more than 256 MiB, on a keyId that is not a UUID
   * @throws RandomnessError where the platform has no secure randomness
   * @example
   * ```ts
   * const envelope = await eaas.encrypt('+33 6 12 34 56 78', { keyId, context: { table: 'users', column: 'phone', row: '7' } })
   * ```
   */
  encrypt(value: string | Binary, options: EncryptOptions & { envelope?: 2 | undefined }): Promise<EnvelopeV2>
  encrypt(value: string | Binary, options: EncryptOptions & { envelope: 1 }): Promise<EnvelopeV1>
  encrypt(value: string | Binary, options: EncryptOptions): Promise<Envelope>
  /**
   * Seals the JSON text of a value. Refuses what JSON cannot represent, and names its path, which may contain your
   * data: a Map, a Date or anything with a `toJSON`, an instance of a class, NaN, a bigint, undefined in an array.
   * Undefined members are left out, and -0 becomes 0. Do not change the value until the promise settles. Otherwise as
   * `encrypt`.
   * @throws InvalidInputError with the path of what JSON cannot represent
   */
  encryptJson(value: unknown, options: EncryptOptions & { envelope?: 2 | undefined }): Promise<EnvelopeV2>
  encryptJson(value: unknown, options: EncryptOptions & { envelope: 1 }): Promise<EnvelopeV1>
  encryptJson(value: unknown, options: EncryptOptions): Promise<Envelope>
  /**
   * Opens an envelope, or a bundle of server mode, and returns the plaintext's bytes (envelope.md 6, envelope-v2.md 6).
   * An envelope encrypted with a context needs the same one. Format v1 is refused if a context is given, even an empty
   * one. Uses the network only when its DEK is not cached, for one unwrap that all waiting calls share.
   * @throws InvalidInputError when it is not an envelope, before the network is used
   * @throws DecryptionError when it was altered, or sealed under another key or with another context
   * @example
   * ```ts
   * const bytes = await eaas.decrypt(envelope, { context: { table: 'users', column: 'phone', row: '7' } })
   * ```
   */
  decrypt(envelope: StoredEnvelope, options?: DecryptOptions): Promise<Bytes>
  /** Opens an envelope to text. @throws ContentError when the bytes are not UTF-8; otherwise as `decrypt` */
  decryptText(envelope: StoredEnvelope, options?: DecryptOptions): Promise<string>
  /** Opens an envelope to a JSON value; `T` is not checked. @throws ContentError when it is not JSON; otherwise as `decrypt` */
  decryptJson<T = unknown>(envelope: StoredEnvelope, options?: DecryptOptions): Promise<T>
  /**
   * Seals the chosen fields of many records and returns new records. `null`, `undefined` and all other fields stay
   * unchanged. Envelopes have format v2, with `envelope: 1` format v1. All rows share the key's DEK: one wrap, or none.
   * With `index`, adds a column for each blind index and has the service hash each distinct value once, up to 1,000 in
   * one request. All values are checked before anything is sent, and the call fails as a whole. Do not change the
   * records until the promise settles.
   * @throws InvalidInputError with `place` (record and field) for a value that is neither text nor bytes
   * @example
   * ```ts
   * const rows = await eaas.encryptMany(users, { keyId, fields: ['email', 'phone'], index: { email: 'email_index' } })
   * ```
   */
  encryptMany<
    R extends object,
    const F extends SealableField<R>,
    const I extends { readonly [K in F]?: string } = Record<never, never>,
  >(records: readonly R[], options: EncryptManyOptions<F, I, R>): Promise<EncryptedRecord<R, F, I>[]>
  /**
   * Opens the chosen fields of many records and returns new records, with text in those fields, or bytes with `as:
   * 'bytes'`. `null` and `undefined` stay unchanged. Each distinct wrapped key is unwrapped once, regardless of the
   * cache's size. The call fails as a whole.
   * @throws InvalidInputError, DecryptionError or ContentError with `place` (record and field)
   * @example
   * ```ts
   * const users = await eaas.decryptMany(rows, { fields: ['email', 'phone'] })
   * ```
   */
  decryptMany<R extends object, const F extends OpenableField<R>, A extends 'text' | 'bytes' = 'text'>(
    records: readonly R[],
    options: DecryptManyOptions<F, A, R>,
  ): Promise<DecryptedRecord<R, F, A extends 'bytes' ? Bytes : string>[]>
  /**
   * The blind index of a text: 64 lower-case hexadecimal digits, always the same for the same text and key
   * (blind-index.md). Sends the text to the service, not normalised, in one request. Equals a model's index of the
   * normalised value only if that index is `shared`. @throws InvalidInputError on text with a lone surrogate
   */
  hash(value: string, options: HashOptions): Promise<string>
  /**
   * Has the service wrap the envelope's DEK under the current version of its key, and returns the envelope with the new
   * wrapped key, which is checked only if `deks.verify` is on. Text stays text, and the ciphertext does not change.
   * Calls in one turn share a request; each gets an audit entry. Needs `wrap` and `unwrap`, and for a model's value its
   * `context`. For whole records see `rewrap` of a model. @throws InvalidInputError when it is not an envelope, before
   * the network is used
   */
  rewrap<E extends StoredEnvelope>(envelope: E, options?: RewrapEnvelopeOptions): Promise<E extends string ? string : E>
  /**
   * Makes a model: a type of record with sealed fields, some of which can be searched. It binds each value to the model
   * and its field, and with `bind` to its row, in envelopes of format v2; `envelope: 1` writes the format that clients
   * in other languages read. Does not use the network.
   * @throws InvalidInputError when the definition is wrong
   * @example
   * ```ts
   * const users = eaas.model({
   *   name: 'users',
   *   keyId,
   *   bind: ['id'],
   *   fields: { email: text({ index: 'email_index', normalize: ['trim', 'lowercase'] }), phone: text().nullable() },
   * })
   * ```
   */
  model<
    const F extends Fields,
    const C extends Compounds<F> = Record<never, never>,
    T extends RowFormat = 'full',
    const H extends string = 'envelope',
    const P extends boolean = false,
    const S extends 'row' | undefined = undefined,
    const O extends Readonly<Record<string, string>> = Record<never, never>,
  >(
    options: ModelOptions<F, C, T, H, P, { seal: S; former: O }> & { sealed?: S | undefined },
  ): Model<F, C, T, H, P, ExtrasOf<S, O>>
  readonly keys: Keys
  readonly apiKeys: ApiKeys
  readonly audit: Audit
  /** Server mode, in which the service sees the plaintext, unlike with `encrypt` and `decrypt`. */
  readonly server: ServerMode
  /** Aborts running calls (`E_ABORTED`), refuses further ones, and zeroes every DEK, except the platform's own copies. */
  close(): void
}

/** For `using eaas = createClient(…)`. Empty if TypeScript has no `Symbol.dispose`, so that these types need no `lib`. */
export type Closable = SymbolConstructor extends { readonly dispose: infer S extends symbol }
  ? { readonly [K in S]: () => void }
  : object

/** An interface, so that an application's declarations can name it. */
export interface ClosableClient extends Client, Closable {}

/**
 * Creates a client. Does not use the network. Without a `baseUrl`, the environment says where the service is:
 * `EAAS_URL` and `EAAS_API_KEY`, as `eaas dev` writes them into `.env.local`.
 * @throws InvalidInputError when an option is wrong
 * @example
 * ```ts
 * const eaas = createClient({ baseUrl: 'https://eaas.example.org', apiKey: process.env.EAAS_API_KEY ?? '' })
 * ```
 */
export function createClient(options: ClientOptions = {}): ClosableClient {
  const { onEvent, ...settings } = readOptions(options)
  let connection: Connection | undefined
  let isClosed = false
  const loadObserver = async () =>
    onEvent && (await loadPart(() => import('./http/events.js'))).createObserver(onEvent, isEaasError)
  /** Makes the function that loads a part of the SDK. Each part can connect. */
  const createLoad = <T extends Pick<typeof Parts, 'connect'>>(load: () => Promise<T>) =>
    loadOnce(async () => {
      const [part, observer] = await Promise.all([loadPart(load), loadObserver()])
      if (!connection) {
        connection = part.connect({ ...settings, observer, loadMore, loadOpening, loadRare, loadFailures })
        if (isClosed) connection.close()
      }
      return { ...part, ...connection }
    })
  const loadMore: () => Soon<typeof More & Connection> = createLoad(() => import('./more.js'))
  const loadFailures: () => Soon<typeof Failures> = createLoad(() => import('./failures.js'))
  const loadOpening: () => Soon<typeof Opening & Connection> = createLoad(() => import('./opening.js'))
  const loadRare: () => Soon<typeof Rare> = createLoad(() => import('./rare.js'))
  const loadSealer = createLoad(() => import('./sealing.js'))
  const loadSealing = loadOnce(async () => {
    const sealing = await loadSealer()
    return { ...sealing, records: sealing.addSealing(sealing, { ...settings, loadMore, loadRare }) }
  })
  const resources = createResources(loadMore)
  const models = {
    ...{ loadSealing, loadOpening, loadRare, loadMore },
    maxMessages: settings.encryptLimits.maxMessages,
    hasSecret: settings.secrets.list.length > 0,
    changesSecret: settings.secrets.list.length > 1 || settings.secrets.acceptWithout,
  }
  /** Loads a part and the engine. Returns no promise if both are loaded. */
  const prepare = <T extends { records: OpenDeps }>(load: () => Soon<T>): Soon<T> =>
    use(load(), (parts) => {
      const readying = parts.records.envelopes.ready()
      return readying ? readying.then(() => parts) : parts
    })

  const close = () => {
    isClosed = true
    if (connection) connection.close()
    else for (const secret of settings.secrets.list) secret.fill(0)
  }
  const { dispose } = Symbol as { dispose?: symbol } // looked up late, since it may be polyfilled

  const encrypt = async (value: unknown, options: Partial<EncryptOptions> = {}) => {
    const signal = readSignal('encrypt()', options, ENCRYPT_OPTIONS)
    const { keyId, context, envelope, dek = 'shared' } = options
    assertKeyId(keyId)
    assertScope(dek)
    assertFormat(options, models.hasSecret)
    const given = readValue(value)
    const pairs = copyPlain(context)
    const preparing = prepare(loadSealing)
    // Copied if the call has to wait, since the caller may zero or change the value meanwhile.
    const bytes = isPromise(preparing) || dek !== 'shared' ? new Uint8Array(given) : given
    const { records, sealOne } = isPromise(preparing) ? await preparing : preparing
    return sealOne(records, bytes, { keyId, context: pairs, envelope, dek, signal })
  }
  /** Opens synchronously if everything is loaded, so that uses of the bytes need no promise. */
  const open = (envelope: StoredEnvelope, options: DecryptOptions = {}): Soon<Uint8Array> => {
    const signal = readSignal('decrypt()', options, DECRYPT_OPTIONS)
    const demand = readDemand(options)
    const preparing = prepare(loadOpening)
    // Copied if the call has to wait, since the caller may change the envelope meanwhile.
    const given = isPromise(preparing) && typeof envelope === 'object' ? envelope && { ...envelope } : envelope
    return use(preparing, ({ records, openOne }) => openOne(records, given, demand, signal))
  }
  const client = {
    encrypt,
    encryptJson: traced(async (value: unknown, options: EncryptOptions) => {
      const { readJson } = await loadRare()
      return encrypt(readJson(value), options)
    }),
    decrypt: async (envelope: StoredEnvelope, options?: DecryptOptions) => open(envelope, options),
    decryptText: async (envelope: StoredEnvelope, options?: DecryptOptions) => use(open(envelope, options), toText),
    decryptJson: async (envelope: StoredEnvelope, options?: DecryptOptions) => {
      const bytes = await open(envelope, options)
      return (await loadOpening()).toJson(bytes)
    },
    encryptMany: traced(
      async (rows: readonly object[], options: EncryptManyOptions<string, Record<string, string>>) => {
        const taken = takeRows(rows)
        const [{ records }, { encryptMany }] = await Promise.all([loadSealing(), loadMore()])
        return encryptMany(records, taken, options)
      },
    ),
    decryptMany: traced(async (rows: readonly object[], options: DecryptManyOptions<string, 'text' | 'bytes'>) => {
      const [opening, { decryptMany }] = await Promise.all([loadOpening(), loadMore()])
      return decryptMany({ ...opening, ...opening.records }, rows, options)
    }),
    hash: traced(async (value: string, options: Partial<HashOptions> = {}) => {
      const signal = readSignal('hash()', options, ['keyId', 'signal'])
      const { keyId } = options
      assertKeyId(keyId)
      assertHashable(value)
      const { records } = await loadSealing()
      return records.batcher.hash(value, keyId, signal)
    }),
    async rewrap(envelope: StoredEnvelope, options: RewrapEnvelopeOptions = {}) {
      const signal = readSignal('rewrap()', options, ['context', 'signal'])
      const [given, context] = [copyPlain(envelope), copyPlain(options.context)]
      const [{ records, rewrapEnvelope }, { usesIn }] = await Promise.all([loadMore(), loadOpening()])
      return rewrapEnvelope({ ...records, usesIn }, given, { context, signal })
    },
    model: (options: ModelOptions<Fields, Compounds<Fields>, RowFormat, string, boolean, Extras>) =>
      createModel(models, options),
    ...resources,
    close,
    [CLIENT_PARTS]: (toSeal = true) =>
      prepare<{ records: OpenDeps }>(toSeal ? loadSealing : () => connection ?? loadOpening()),
    ...(dispose ? { [dispose]: close } : {}),
  }
  return Object.freeze(client) as unknown as ClosableClient // many-records.ts takes any field; Client's types are what callers see
}

function readOptions(options: ClientOptions) {
  assertOptions('createClient()', options, CLIENT_OPTIONS)
  const isByEnvironment = !('baseUrl' in options)
  const { baseUrl, apiKey } = options
  const { engine = 'auto', timeoutMs = 30_000, retries = 2, deks = {} } = options
  assertOptions('deks', deks, DEK_OPTIONS)
  // The first request reports a missing API key (http/environment.ts).
  if (apiKey !== undefined && typeof apiKey !== 'string' && typeof apiKey !== 'function')
    throw new InvalidInputError(`apiKey must be a string or a function, got ${kindOf(apiKey)}`)
  assertOneOf('engine', engine, ['auto', 'noble', 'node', 'web'] satisfies EngineName[])
  for (const name of ['fetch', 'onEvent'] as const) {
    const given: unknown = options[name]
    if (given !== undefined && typeof given !== 'function') throw new InvalidInputError(`${name} must be a function`)
  }
  assertWhole('timeoutMs', timeoutMs, 1, MAX_TIMEOUT_MS)
  assertWhole('retries', retries, 0, MAX_RETRIES)
  const { maxMessages = 2 ** 20, maxBytes = 64 * 2 ** 30, maxAgeMs = runsInNode() ? HOUR_MS : 15 * MINUTE_MS } = deks
  const { cache = true, cacheSize = 1_024, cacheMaxAgeMs = 5 * MINUTE_MS } = deks
  const { verify = false } = deks
  const { allowInsecure = false, auditContext } = options
  assertAuditContext(auditContext)
  for (const [name, value] of Object.entries({ cache, verify, allowInsecure })) assertFlag(name, value)
  assertWhole('deks.maxMessages', maxMessages, 1, DEK_MAX_MESSAGES)
  for (const [name, value] of Object.entries({ maxBytes, maxAgeMs, cacheSize, cacheMaxAgeMs })) {
    assertWhole(`deks.${name}`, value, 1)
  }
  return {
    findBase: isByEnvironment ? undefined : resolveBaseUrl(baseUrl, allowInsecure),
    allowInsecure,
    apiKey,
    // A forgotten variable, `apiKey: undefined`, must not fall back to another tenant's key from the environment.
    fromEnv: !('apiKey' in options),
    fetch: options.fetch,
    timeoutMs,
    retries,
    engine,
    verify,
    openTelemetry: options.openTelemetry,
    auditContext,
    onEvent: options.onEvent,
    secrets: readSecrets(options),
    encryptLimits: { maxMessages, maxBytes, maxAgeMs, maxKeys: cacheSize },
    decryptLimits: { maxDeks: cache ? cacheSize : 0, maxAgeMs: cacheMaxAgeMs },
  }
}

function runsInNode(): boolean {
  return typeof (globalThis as { process?: { versions?: { node?: unknown } } }).process?.versions?.node === 'string'
}
