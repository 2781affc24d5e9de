/** Advice about an error of the database, of the connection to it, or of the system. */
import { CommandError } from '@eaas/audit/command'
import { type DatabaseSetting, nameSetting } from '../../core/database-url.js'
import { SHOW_ROWS } from '../../core/store/tampered-row.js'
import { FREE_CONNECTIONS, findRefusedLogin } from '../../core/store/unreachable.js'
import { WHEN_READ_ONLY } from '../../core/store/writability.js'

const UNKNOWN_AUTHORITY =
  'the authority that signed the certificate of the database is unknown here. Set NODE_EXTRA_CA_CERTS to a file with its certificate'

const SETTING = /\bSETTING\b/g // stands for the setting that names the database, in the texts below

/** By SQLSTATE, Node's code or, for TLS, the patched driver's code. */
const ADVICE: Record<string, string> = {
  '53300': FREE_CONNECTIONS,
  '08P01': 'unset EAAS_DATABASE_POOLER, or set it to transaction: there is a pooler',
  '25006': `connect to the primary, or ${WHEN_READ_ONLY}`,
  '28000': 'check the user in SETTING, and that pg_hba.conf lets it in',
  '28P01': 'check the user and the password in SETTING',
  '3D000': 'create the database, or correct its name in SETTING',
  '42501':
    'grant the role what it needs: run eaas migrate --role <role> as the owner of the tables, which says what only the owner of the database can grant',
  '55P03':
    'another command or session holds a lock that this one needs, such as a move, a rotation of the store key or a backup. Wait until that ends, and repeat ' +
    'the command; pg_blocking_pids in PostgreSQL names the session',
  EMFILE:
    'raise the limit of open files (ulimit -n 1024, or LimitNOFILE= in a systemd unit). On the embedded database a process needs about 160 and on ' +
    'PostgreSQL under 60, beside one for each connection of a client',
  NO_TLS:
    'sslmode in SETTING requires it. Turn it on in PostgreSQL (ssl = on), or leave sslmode out if nobody can listen between here and the database',
  NO_CHANNEL_BINDING:
    'channel_binding=require in SETTING needs it. Remove the parameter, and use sslmode=verify-full, which checks the certificate',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: UNKNOWN_AUTHORITY,
  SELF_SIGNED_CERT_IN_CHAIN: UNKNOWN_AUTHORITY,
  DEPTH_ZERO_SELF_SIGNED_CERT: UNKNOWN_AUTHORITY,
  ERR_TLS_CERT_ALTNAME_INVALID: 'use a host in SETTING that the certificate of the database names',
}

const DENIED = '42501' // SQLSTATE insufficient_privilege

/** For a command that only the owner of the tables may run, so that granting rights would not help. @throws CommandError */
export async function asOwner<T>(work: Promise<T>): Promise<T> {
  return work.catch((error: NodeJS.ErrnoException) => {
    if (error.code !== DENIED) throw error
    throw new CommandError(`${error.message} (${DENIED}): run this command as the owner of the tables`)
  })
}

/** PostgreSQL's function that refuses a statement from which row level security would hide rows. */
const ROW_SECURITY = 'check_enable_rls'

let setting: DatabaseSetting = {}

/** One process has one configuration. */
export function adviseOn(config: DatabaseSetting): void {
  setting = config
}

export function withAdvice(error: unknown, text: string): string {
  if (!(error instanceof Error) || !('code' in error)) return text
  if ('routine' in error && error.routine === ROW_SECURITY) return `${text}: ${SHOW_ROWS}`
  const advice = ADVICE[findRefusedLogin(error) ?? String(error.code)]
  return advice === undefined ? text : `${text}: ${advice.replace(SETTING, nameSetting(setting))}`
}
