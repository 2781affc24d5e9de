/**
 * Binds each call to the function that answers it in memory. The contract's table of routes defines the wire
 * format.
 */
import type { SdkOperation, wire } from '@eaas/protocol'
import { apiKeyFakes } from './api-keys.js'
import { auditFakes } from './audit.js'
import { keyFakes } from './keys.js'
import { secretFakes } from './secrets.js'
import type { Call } from './state.js'

/** The name of an API call, as `failNext` takes it: every call that the SDK makes. */
export type TestOperation = SdkOperation

type Input<Id> = Id extends keyof wire.Bodies
  ? wire.Bodies[Id]
  : Id extends keyof wire.Queries
    ? wire.Queries[Id]
    : undefined
type Answer<Id> = Id extends keyof wire.Answers ? wire.Answers[Id] : unknown

/** A fake of each operation; serve.ts answers `batch` and `getHealth`. */
export const FAKES: {
  [Id in Exclude<TestOperation, 'batch' | 'getHealth'>]: (
    call: Call,
    input: Input<Id>,
  ) => Answer<Id> | Promise<Answer<Id>>
} = { ...keyFakes, ...secretFakes, ...auditFakes, ...apiKeyFakes, getTenant: ({ state }) => state.tenant }
