/**
 * The user, password and certificate with which a connection logs in to PostgreSQL. Each new connection reads the files
 * anew, so renewing a short-lived password or certificate needs neither a signal nor a restart.
 */
import { readFileSync } from 'node:fs'
import { createScram, type Scram } from '@eaas/postgres/scram'
import { ConfigError, readUrlFile } from '../config.js'
import { type DatabaseUrl, nameSetting, readDatabaseUrl } from '../database-url.js'

export interface Login {
  /** as at the start: it identifies the database */
  url: string
  /** the file with the current URL; undefined if the URL does not change */
  urlFile?: string | undefined
  /** the option that names this file, if EAAS_DATABASE_URL_FILE does not */
  urlOption?: string | undefined
}

/** For the driver, patched by 16-credentials-of-each-connection.diff and 23-scram-as-in-libpq.diff. */
interface Credentials {
  user: string | undefined
  pass: string | undefined
  ssl: { cert?: string; key?: string; ca?: string; rejectUnauthorized: boolean } | undefined
  scram: Scram
}

/**
 * Creates the function that each new connection calls. When the files cannot be used, reports that once and returns the
 * last usable login, which the database may still accept. @throws ConfigError if the files cannot be used at the start
 */
export function createLogin(login: Login, onStale: (error: Error) => void = () => undefined): () => Credentials {
  let last = readLogin(login)
  let reported: string | undefined
  return () => {
    try {
      last = readLogin(login)
      reported = undefined
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      if (error.message !== reported) onStale(error)
      reported = error.message
    }
    return last
  }
}

/** Reads the current files. @throws ConfigError, also if they lead to another database than at the start */
export function readLogin({ url, urlFile, urlOption }: Login): Credentials {
  const now = urlFile === undefined ? url : readUrlFile(urlFile, urlOption)
  const read = readDatabaseUrl(now)
  if (!read || placeOf(now) !== placeOf(url)) {
    throw new ConfigError(
      `${nameSetting({ databaseUrlFile: urlFile, databaseUrlOption: urlOption })} names another host, database or parameter than at the start. Only user and password may change: restart the server`,
    )
  }
  return {
    user: read.user || undefined,
    pass: read.password || undefined,
    ssl: readCertificates(read),
    scram: createScram(read.channelBinding),
  }
}

// The URL without user and password.
function placeOf(url: string): string {
  return url.replace(/^(postgres(?:ql)?:\/\/)[^/?#]*@/, '$1@')
}

function readCertificates({ sslMode, certFile, keyFile, caFile }: DatabaseUrl): Credentials['ssl'] {
  if (certFile === undefined && caFile === undefined) return undefined
  const hasCert = certFile !== undefined && keyFile !== undefined
  return {
    ...(hasCert && { cert: readText('sslcert', certFile), key: readText('sslkey', keyFile) }),
    ...(caFile !== undefined && { ca: readText('sslrootcert', caFile) }),
    rejectUnauthorized: sslMode !== 'require',
  }
}

function readText(parameter: string, path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    throw new ConfigError(`${parameter} in the URL of the database names a file that cannot be read (${code}): ${path}`)
  }
}
