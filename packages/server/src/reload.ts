/** Reloads the files of TLS every ten seconds, and everything at SIGHUP. Each database connection reads its own login. */
import type { Log } from '@eaas/audit/node'
import type { Config } from './core/config.js'
import type { TlsListener } from './core/http/tls-listener.js'
import type { Login } from './core/store/login.js'
import { findReached } from './core/store/open-store.js'

const INTERVAL_MS = 10_000 // within which a replaced file is noticed

export interface Reload {
  /** Reads everything now, tries the login to the database, and logs the result; never rejects. */
  now(read: () => Config): Promise<void>
  stop(): void
}

interface ReloadOptions {
  tls: TlsListener | undefined
  config: Config
  setLogLevel: (level: Config['logLevel']) => void
  log: Pick<Log, 'warn' | 'error'>
  intervalMs?: number
}

export function startReload({ tls, config, setLogLevel, log, intervalMs = INTERVAL_MS }: ReloadOptions): Reload {
  let failure: string | undefined // the one that is already logged
  function reloadTls(tls: TlsListener): boolean {
    try {
      if (tls.reload()) {
        const expires_at = new Date(tls.state().expiresAt).toISOString()
        log.warn({ expires_at }, 'new connections get another certificate')
      }
      failure = undefined
      return true
    } catch (error) {
      const { message } = error as Error
      if (message !== failure)
        log.error({ err: error }, 'the earlier certificate stays, because the files of TLS cannot be used')
      failure = message
      return false
    }
  }
  async function attempt(failed: string, work: () => unknown): Promise<boolean> {
    try {
      await work()
      return true
    } catch (error) {
      log.error({ err: error }, failed)
      return false
    }
  }
  // Each new connection reads its login anyway. This reports a fault in it before a connection fails.
  const tryLogin = (login: Login) => attempt(REFUSED, () => findReached(login))
  const takeSettings = (read: () => Config) =>
    attempt('the settings stay as they are', () => {
      const now = read()
      setLogLevel(now.logLevel)
      const settings = findChanged(config, now)
      if (settings.length > 0) log.warn({ settings }, 'these settings changed, and take a restart')
    })
  const timer = tls && setInterval(reloadTls, intervalMs, tls).unref()
  return {
    async now(read) {
      failure = undefined
      const { databaseUrl: url, databaseUrlFile: urlFile } = config
      const taken = [
        !tls || reloadTls(tls),
        await takeSettings(read),
        url === undefined || (await tryLogin({ url, urlFile })),
      ]
      if (taken.includes(false)) log.error({}, 'not everything was reloaded at SIGHUP: see the errors before this line')
      else log.warn({}, 'reloaded at SIGHUP')
    },
    stop: () => clearInterval(timer),
  }
}

const REFUSED = 'the database could not be logged in to as the settings say now; connections that are open stay'

/** Settings that need no restart, and members that are not settings. */
const TAKEN: readonly string[] = ['logLevel', 'databaseUrl', 'unknownVariables']

function findChanged(before: Config, now: Config): string[] {
  const names = Object.keys(now) as (keyof Config)[]
  return names.filter((name) => !TAKEN.includes(name) && JSON.stringify(before[name]) !== JSON.stringify(now[name]))
}
