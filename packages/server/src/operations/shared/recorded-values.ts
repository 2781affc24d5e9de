/** What the entries of changes say of the rights that they grant (chain.md 12). Pure. */
import { createHash } from 'node:crypto'
import type { ApiKeyRow } from '../../store/api-keys.js'

/** Longer lists of addresses are recorded by their number and their SHA-256, so that no entry grows with them. */
const MAX_LIST_CHARACTERS = 1_024

type Values = Record<string, string | number | boolean | null>
type Grant = Pick<ApiKeyRow, 'permissions' | 'expires_at' | 'allowed_ips'>

/** What an API key is granted. */
export function recordGrant({ permissions, expires_at, allowed_ips }: Grant): Values {
  return {
    permissions: [...permissions].sort().join(' '),
    expires_at,
    ...recordAddresses('allowed_ips', allowed_ips),
  }
}

/** What an API key was granted before a change, of what the change made different. */
export function recordGrantBefore(before: Grant, after: Grant): Values {
  const { permissions = null, expires_at = null } = recordGrant(before)
  const isSame = (name: keyof Grant) =>
    JSON.stringify([before[name]].flat().sort()) === JSON.stringify([after[name]].flat().sort())
  return {
    ...(isSame('permissions') ? {} : { permissions_before: permissions }),
    ...(isSame('expires_at') ? {} : { expires_at_before: expires_at }),
    ...(isSame('allowed_ips') ? {} : recordAddresses('allowed_ips_before', before.allowed_ips)),
  }
}

/** The values of changed columns, and under `<name>_before` those that they replace. */
export function recordChanges<Row extends object>(before: Row, changes: Partial<Row>): Values {
  const values: Values = {}
  for (const name of Object.keys(changes) as (keyof Row & string)[]) {
    values[name] = changes[name] as Values[string]
    values[`${name}_before`] = before[name] as Values[string]
  }
  return values
}

function recordAddresses(name: string, addresses: readonly string[]): Values {
  if (addresses.length === 0) return { [name]: null }
  const list = [...addresses].sort().join(' ')
  if (list.length <= MAX_LIST_CHARACTERS) return { [name]: list }
  return { [`${name}_count`]: addresses.length, [`${name}_sha256`]: createHash('sha256').update(list).digest('hex') }
}
