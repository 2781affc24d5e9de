/** Waits for PostgreSQL while it cannot be reached or has no free connection; the error at the end says which. */
import { setTimeout as sleep } from 'node:timers/promises'
import { type DatabaseSetting, nameSetting, readDatabaseUrl } from '../database-url.js'
import { DatabaseDeadlineError } from './deadline.js'
import { isMisconfigured, isUnreachable, isWithoutConnection } from './unreachable.js'

/** Between two attempts to reach the database. */
export const RETRY_MS = 500

export const FREE_CONNECTIONS =
  'a server needs up to 13 connections, 3 of them at its start, and a command up to 5. Raise max_connections, or what the role or the database may have ' +
  '(alter role … connection limit …), or end what holds them'

export class UnreachableDatabaseError extends Error {
  override readonly name = 'UnreachableDatabaseError'

  /** The message contains no credentials, and neither do the system's and the driver's about a connection. */
  constructor(setting: DatabaseSetting, seconds: number, cause: unknown) {
    const waited = seconds > 0 ? `, although the server tried for ${seconds} s (EAAS_START_WAIT_SECONDS)` : ''
    const database = describe(setting)
    super(
      isWithoutConnection(cause)
        ? `PostgreSQL at ${database} has no free connection for this role${waited}: ${FREE_CONNECTIONS}`
        : `The database at ${database} cannot be reached${waited}. Check that it runs, and that ${nameSetting(setting)} names it`,
      { cause },
    )
  }
}

export interface Wait {
  seconds: number
  /** called once, when the waiting begins; `database` contains no credentials */
  onWait: (details: { database: string; seconds: number; error: unknown }) => void
}

/** Tries again while the database cannot be reached. @throws UnreachableDatabaseError, or any other error at once */
export async function untilReached<T>(open: () => Promise<T>, setting: DatabaseSetting, wait?: Wait): Promise<T> {
  const seconds = wait?.seconds ?? 0
  const until = performance.now() + seconds * 1_000
  let isReported = false
  for (;;) {
    try {
      return await open()
    } catch (thrown) {
      const error = thrown instanceof UnreachableDatabaseError ? thrown.cause : thrown
      if (!isUnreachable(error) || isMisconfigured(error) || error instanceof DatabaseDeadlineError) throw thrown
      if (performance.now() >= until) throw new UnreachableDatabaseError(setting, seconds, error)
      if (!isReported) wait?.onWait({ database: describe(setting), seconds, error })
      isReported = true
      await sleep(RETRY_MS)
    }
  }
}

function describe({ databaseUrl }: DatabaseSetting): string {
  return readDatabaseUrl(databaseUrl ?? '')?.description ?? ''
}
