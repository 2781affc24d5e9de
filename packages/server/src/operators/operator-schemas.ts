// The bodies, queries and answers of operators' calls. They refuse unknown members, unlike those of /v1, which clients
// of other versions send: a misspelt setting of a tenant must not pass for an unchanged one.
import { wire } from '@eaas/protocol'
import * as z from 'zod/mini'
import { ALARM_CODES } from './read-alarms.js'
import { findNameFault } from './tenants.js'

const MAX_LISTED_TENANTS = 1_000

const strict = <Shape extends z.core.$ZodShape>(shape: Shape) => wire.strict(shape, 'this call does not take it, only')

/* Requests */

export const listTenants = strict({
  limit: z.optional(wire.limitUpTo(MAX_LISTED_TENANTS)),
  offset: z.optional(wire.from0),
})
export const tenantName = wire.FIELDS.name.check(
  z.superRefine((name, context) => {
    const fault = findNameFault(name)
    if (fault !== undefined) context.issues.push({ code: 'custom', message: fault, input: name })
  }),
)
export const createTenant = strict({ name: tenantName, envelope_only: z.optional(z.boolean()) })
export const updateTenant = strict({
  envelope_only: z.optional(z.boolean()),
  monthly_encrypt_quota: z.optional(z.nullable(wire.count)),
  plaintext_encoding: z.optional(z.enum(wire.PLAINTEXT_ENCODINGS)),
})
export const changeStatus = strict({ reason: wire.FIELDS.name })

/* Answers */

const tenant = { tenant_id: wire.uuid, name: z.string(), envelope_only: z.boolean(), created_at: wire.time }
export const operatorTenant = z.object({
  ...tenant,
  monthly_encrypt_quota: z.nullable(wire.count),
  plaintext_encoding: z.optional(z.enum(['base64'])),
  status: z.enum(['active', 'suspended', 'deleted', 'moving', 'moved']),
  moved_to: z.optional(z.object({ public_key: z.string(), address: z.optional(z.string()) })), // not in lists
})
export const operatorTenantList = z.object({
  tenants: z.array(operatorTenant),
  count: wire.count,
  tampered: z.array(wire.uuid),
})
export const newTenant = z.object({
  ...tenant,
  api_key: z.object({
    id: wire.uuid,
    name: z.string(),
    prefix: z.string(),
    permissions: z.array(z.string()),
    created_at: wire.time,
    secret: z.string(),
  }),
})
export const alarmList = z.object({
  alarms: z.array(
    z.object({
      tenant_id: z.nullable(wire.uuid), // null for the installation's own log
      code: z.enum(ALARM_CODES),
      reason: z.string(),
      refused: z.string(), // the calls that are refused until the alarm is settled
      commands: z.array(z.string()), // to run next, in this order
      page: z.string(),
    }),
  ),
  count: wire.count,
})
const age = z.nullable(z.number())
export const serverStatus = z.object({
  version: z.string(),
  health: wire.asZod(wire.health),
  alarms: wire.count,
  invalid_logs: z.nullable(wire.count),
  ages_in_seconds: z.object({
    anchor: age,
    checkpoint: age,
    verification: age,
    purge: age,
    backup: age,
    witnesses: z.array(z.object({ name: z.string(), cosignature: z.number(), contradicted: z.boolean() })),
  }),
})
