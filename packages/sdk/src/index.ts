/** `@eaas/sdk`: encrypts locally, and has the service wrap the data keys. Only the exports here are public. */
export type { Action, Context, Envelope, EnvelopeV1, EnvelopeV2, Permission, ProblemCode } from '@eaas/protocol'
export * from './client.js'
export type { EngineName } from './engines/engine.js'
export {
  AbortedError,
  ApiError,
  type ApiProblem,
  type ColdError,
  ContentError,
  type DatabaseError,
  DecryptionError,
  EaasBaseError,
  type EaasError,
  type EaasErrorCode,
  InvalidInputError,
  isEaasError,
  NetworkError,
  ProtocolError,
  RandomnessError,
  type RecordPlace,
  type ServiceProblem,
  TimeoutError,
} from './errors.js'
export type { ApiKey } from './http/calls.js'
export type {
  CallEvent,
  ClientEvent,
  EngineFault,
  FailureEvent,
  FallbackEvent,
  HitEvent,
  RefusalEvent,
  RetryEvent,
} from './http/events.js'
export { type ExpiringApiKey, expiringApiKey, type ShortLivedApiKey } from './http/expiring-api-key.js'
export type { Fetch, FetchBody, FetchInit, FetchResponse } from './http/fetch.js'
export type { OpenTelemetry } from './http/open-telemetry.js'
export type { AuditContext, Binary, Bytes, DekScope } from './input.js'
export type { CompactField, EnvelopeHeader } from './models/compact-rows.js'
export type { BoundOptions, ModelOptions, RowFormat, UnboundOptions } from './models/definition.js'
export type {
  DateOptions,
  Field,
  FieldKind,
  FieldSpec,
  IndexOptions,
  NumberOptions,
  PadOptions,
  TextOptions,
} from './models/fields.js'
export { boolean, bytes, date, json, number, text } from './models/fields.js'
export type { Normalizer } from './models/index-columns.js'
export type { IndexBy } from './models/index-source.js'
export type { Bucketing } from './models/index-texts.js'
export type { Model, PlainRow, StoredRow } from './models/model.js'
// Includes the results of a model's methods: an application that exports such a value must be able to name its type.
export type {
  Accepted,
  AnyField,
  CompoundIndex,
  Compounds,
  Extras,
  ExtrasOf,
  Fields,
  KnownOptions,
  NgramIndex,
  NoExtras,
  OpenedRow,
  OtherColumns,
  PartialFields,
  PickedCompounds,
  PlainShape,
  PrefixIndex,
  Query,
  QueryColumns,
  Range,
  SealedPartial,
  SealedRow,
  SealedShape,
  WholeShape,
} from './models/model-types.js'
export type { FailedRow, RowsResult } from './models/open-rows.js'
export type { RewrapBatch, RewrapItem, RewrapOptions } from './models/rotation.js'
export type { Progress, RowsOptions } from './records/blocks.js'
export type {
  ContextOf,
  DecryptedRecord,
  DecryptManyOptions,
  EncryptedRecord,
  EncryptManyOptions,
  OpenableField,
  SealableField,
} from './records/many-records.js'
export type { Bundle, StoredEnvelope } from './records/read-envelope.js'
export { fromText, isEnvelope, toText } from './records/read-envelope.js'
// The calls with the types of their answers, without the default exports, which make the resources.
export type * from './resources/api-keys.js'
export type * from './resources/audit.js'
export type {
  CallOptions,
  CreatedKeys,
  Key,
  KeyExport,
  KeyList,
  KeyStatus,
  Keys,
  KeyWithVersions,
  ListKeysOptions,
} from './resources/keys.js'
export type { Health, ServerMode, Tenant, Usage } from './resources/service.js'
