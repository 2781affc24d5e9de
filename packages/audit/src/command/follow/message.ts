/** An entry as a follower writes it: an export line with its tenant, or an ECS event. */
import { isIP } from 'node:net'
import { encodeHex, type LogAction } from '@eaas/protocol'
import { readMetadata } from '../../formats/chain.js'
import { entryLine } from '../../formats/export.js'
import type { ExportedEntry } from '../../verify/read-export.js'

export const FORMATS = ['export', 'ecs'] as const
export type Format = (typeof FORMATS)[number]

export interface Message {
  entry: ExportedEntry
  text: string
}

export function toMessage(entry: ExportedEntry, format: Format): Message {
  return { entry, text: format === 'ecs' ? JSON.stringify(toEcs(entry)) : exportText(entry) }
}

// The line of an export, byte for byte, with the tenant added in front: an export names it only once.
function exportText(entry: ExportedEntry): string {
  return `{"tenant_id":${JSON.stringify(entry.tenant_id)},${entryLine(entry).trimEnd().slice(1)}`
}

const ECS_VERSION = '8.11.0'

/** The ECS category of an action, by the part before its dot. */
const CATEGORIES: Readonly<Record<string, string>> = {
  api_key: 'iam',
  tenant: 'iam',
  audit: 'configuration',
  installation: 'configuration',
}
/** The ECS types of actions that are not changes; none of the missing actions uses a key. */
const TYPES: Partial<Record<LogAction, string>> = {
  'key.wrap': 'access',
  'key.unwrap': 'access',
  'key.index_secret': 'access',
  'key.export': 'access',
  encrypt: 'access',
  decrypt: 'access',
  'envelope_only.refused': 'denied',
  'budget.refused': 'denied',
  'usage.doubled': 'info',
  'key.create': 'creation',
  'api_key.create': 'creation',
  'installation.create': 'creation',
  'installation.tenant_create': 'creation',
  'key.destroy': 'deletion',
  'api_key.revoke': 'deletion',
  'installation.tenant_delete': 'deletion',
  'installation.start': 'info',
  'installation.stop': 'info',
  'installation.anchor': 'info',
  'installation.verify': 'info',
  'installation.export': 'access',
  'installation.doctor': 'info',
  'installation.operator_call': 'info',
}

export function isRefusal({ action }: Pick<ExportedEntry, 'action'>): boolean {
  return action.endsWith('.refused')
}

function toEcs(entry: ExportedEntry): object {
  const { tenant_id, id, action, key_id, key_version, actor, ip_address, created_at, hash } = entry
  const metadata = readMetadata(entry)
  const { request_id, trace_id, on_behalf_of } = metadata
  const [subject = ''] = action.split('.')
  return {
    '@timestamp': created_at,
    ecs: { version: ECS_VERSION },
    event: {
      kind: 'event',
      module: 'eaas',
      dataset: 'eaas.audit',
      id: `${tenant_id}/${id}`,
      sequence: id,
      action,
      category: [CATEGORIES[subject] ?? 'api'],
      type: [TYPES[action as LogAction] ?? 'change'],
      outcome: isRefusal(entry) ? 'failure' : 'success',
    },
    organization: { id: tenant_id },
    user: { id: actor },
    ...(ip_address !== null && {
      source: isIP(ip_address) ? { ip: ip_address, address: ip_address } : { address: ip_address },
    }),
    ...(typeof trace_id === 'string' && { trace: { id: trace_id } }),
    ...(typeof request_id === 'string' && { http: { request: { id: request_id } } }),
    eaas: { key_id, key_version, ...(on_behalf_of !== undefined && { on_behalf_of }), hash: encodeHex(hash), metadata },
  }
}
