/** Determines how a failed command ends: what it prints, and when its process exits. */
import { CheckpointError } from '@eaas/audit'
import { CommandError, USAGE_ERROR } from '@eaas/audit/command'
import { DataDirectoryInUseError, ForeignServerError, ListenError, LockLostError } from '@eaas/audit/node'
import { visibleLine } from '@eaas/protocol'
import { AuditWriteError } from '../../core/audit/append-errors.js'
import { ConfigError } from '../../core/config.js'
import { RefusedPinError, RootKeyError, UnknownStoreKeyError } from '../../core/crypto/key-hierarchy.js'
import { TlsError } from '../../core/http/tls-listener.js'
import { Refusal } from '../../core/runner/refusal.js'
import { DatabaseDeadlineError } from '../../core/store/deadline.js'
import { LockedTablesError, SchemaVersionError } from '../../core/store/migrations.js'
import { DatabaseEncodingError, NoDatabaseError } from '../../core/store/open-store.js'
import { HiddenRowsError, TamperedRowError } from '../../core/store/tampered-row.js'
import { WrongFormatError } from '../../core/store/text-formats.js'
import { UnreachableDatabaseError } from '../../core/store/unreachable.js'
import {
  ForeignDataDirectoryError,
  MovedInstallationError,
  UnlockedServerError,
  UnusableDataDirectoryError,
} from '../../embedded/database.js'
import { EmbeddedStoppedError } from '../../embedded/fsync.js'
import { DecryptError, RecipientError } from '../../root-keys/age.js'
import { PIN_REFUSED } from '../../root-keys/program.js'
import { ChangedMeanwhileError } from '../operations/renew-tenant.js'
import { RowsError, UsedDatabaseError } from '../store/all-rows.js'
import { NoCitusError } from '../store/distribute.js'
import { RoleError } from '../store/grant-serving.js'
import { withAdvice } from './advice.js'

/** Errors whose message is enough. Any other error is a defect, and is printed with its stack. */
const EXPECTED = [
  AuditWriteError,
  ChangedMeanwhileError,
  CheckpointError,
  CommandError,
  ConfigError,
  DataDirectoryInUseError,
  DatabaseDeadlineError,
  DatabaseEncodingError,
  DecryptError,
  EmbeddedStoppedError,
  ForeignDataDirectoryError,
  ForeignServerError,
  HiddenRowsError,
  ListenError,
  LockedTablesError,
  LockLostError,
  MovedInstallationError,
  NoCitusError,
  NoDatabaseError,
  RecipientError,
  WrongFormatError,
  Refusal,
  RoleError,
  RootKeyError,
  RowsError,
  SchemaVersionError,
  TamperedRowError,
  TlsError,
  UnknownStoreKeyError,
  UnlockedServerError,
  UnusableDataDirectoryError,
  UsedDatabaseError,
]

/** Errors with a specific exit code; recipients are given only as options. */
const CODES = [
  [RefusedPinError, PIN_REFUSED],
  [RecipientError, USAGE_ERROR],
] as const

/** Prints why the command failed, and ends the process, with exit code 1 unless another is set or more specific. */
export function fail(error: unknown): void {
  process.exitCode ??= CODES.find(([kind]) => error instanceof kind)?.[1] ?? 1
  const lines = explain(error).split('\n').map(visibleLine)
  // Everything that can be closed is closed by now. A connection whose commit is never acknowledged would keep the process alive.
  process.stderr.write(`eaas: ${lines.join('\n')}\n`, () => process.exit())
}

const PRINTED_MS = 1_000 // in milliseconds, for the reader of standard error once the database is gone

/** Prints why the embedded database failed, and ends the process soon, even if nobody reads its output. */
export function failWithoutDatabase(error: Error): void {
  setTimeout(() => process.exit(), PRINTED_MS)
  fail(error)
}

function explain(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { message, cause } = error
  const { code } = error as NodeJS.ErrnoException
  // The message itself says what to do.
  if (error instanceof UnreachableDatabaseError) return `${message}: ${withCode(cause)}`
  if (cause !== undefined) return `${message}: ${explain(cause)}`
  if (EXPECTED.some((kind) => error instanceof kind)) return message
  // Errors of the system and of the database have a code; their stack adds nothing.
  if (code === undefined) return error.stack ?? message
  return withAdvice(error, withCode(error))
}

function withCode(error: unknown): string {
  const { message = String(error), code } = (error ?? {}) as Partial<NodeJS.ErrnoException>
  return code === undefined || message.includes(code) ? message : `${message} (${code})`
}
