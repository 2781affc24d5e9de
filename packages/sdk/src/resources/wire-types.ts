/** The types of the API's answers under their public names. */
import type { wire } from '@eaas/protocol'

export type Key = wire.Key
export type KeyWithVersions = wire.KeyWithVersions
export type KeyList = wire.KeyList
export type KeyStatus = wire.KeyStatus
export type KeyExport = wire.KeyExport
/** An API key as lists show it: without its secret. */
export type ApiKeyRecord = wire.ApiKey
export type ApiKeyList = wire.ApiKeyList
export type NewApiKey = wire.NewApiKey
export type Entry = wire.Entry
export type EntryList = wire.EntryList
export type Verification = wire.Verification
export type Tenant = wire.Tenant
export type Usage = wire.Usage
export type Health = wire.Health
