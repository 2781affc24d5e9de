/** `eaas api-key`: API keys by the operator's hand; the way back in for a tenant that has lost its last one. */
import type { Permission } from '@eaas/protocol'
import type { Config } from '../config.js'
import { createApiKey } from '../operations/create-api-key.js'
import { listApiKeys } from '../operations/list-api-keys.js'
import { revokeApiKey } from '../operations/revoke-api-key.js'
import { performAsSystem } from '../runner/perform.js'
import { print, printJson, table } from './output.js'
import { getTenantId, withServices } from './with-services.js'

interface Of {
  /** the tenant's name or id */
  tenant: string
  json: boolean
}

export interface CreateOptions extends Of {
  name: string
  permissions: Permission[]
  expiresAt?: string
  allowedIps?: string[]
}

/** Creates an API key and prints its secret, which is shown only here. */
export async function apiKeyCreate(
  config: Config,
  { tenant, name, permissions, expiresAt, allowedIps, json }: CreateOptions,
): Promise<void> {
  const fields = { name, permissions, expires_at: expiresAt ?? null, allowed_ips: allowedIps ?? null }
  const apiKey = await withServices(config, async (services) =>
    performAsSystem(services, await getTenantId(services, tenant), createApiKey(fields)),
  )
  if (json) return printJson(apiKey)
  print(`API key ${apiKey.name} (${apiKey.id}) was created. Its secret, shown only now:`, '', `  ${apiKey.secret}`, '')
}

/** Prints a tenant's API keys, without their secrets. */
export async function apiKeyList(config: Config, { tenant, json }: Of): Promise<void> {
  const list = await withServices(config, async (services) =>
    performAsSystem(services, await getTenantId(services, tenant), listApiKeys()),
  )
  if (json) return printJson(list)
  const rows = list.api_keys.map(({ name, id, status, permissions, expires_at, allowed_ips, last_used_at }) => [
    name,
    id,
    status,
    expires_at ?? 'never',
    last_used_at ?? 'never',
    allowed_ips?.join(' ') ?? 'any',
    permissions.join(' '),
  ])
  print(...table(['NAME', 'ID', 'STATUS', 'EXPIRES', 'LAST USED', 'ADDRESSES', 'PERMISSIONS'], rows))
}

/** Revokes an API key for good. */
export async function apiKeyRevoke(config: Config, id: string, { tenant, json }: Of): Promise<void> {
  await withServices(config, async (services) =>
    performAsSystem(services, await getTenantId(services, tenant), revokeApiKey({ api_key_id: id })),
  )
  if (json) printJson({ id, status: 'revoked' })
  else print(`API key ${id} is revoked.`)
}
