/**
 * The calls of operators: the table of routes below /admin/v1. What they do with tenants is recorded in the
 * installation's log before it is carried out.
 */
import { DETAILS, INSTALLATION_ID, isUuid, type OperatorPermission, type wire } from '@eaas/protocol'
import type { ZodMiniType, z } from 'zod/mini'
import type { Binding, ServedRoute } from '../core/api/route.js'
import { isUnopened } from '../core/audit/audit-key.js'
import { mapInStretches } from '../core/event-loop.js'
import type { Caller, EntryNote, Operation, Services } from '../core/runner/operation.js'
import { performAsSystem } from '../core/runner/perform.js'
import { Refusal } from '../core/runner/refusal.js'
import { listTenants as listRows } from '../core/store/tenants.js'
import * as schemas from './operator-schemas.js'
import { listAlarms, type OperatorSources, readStatus } from './read-alarms.js'
import * as tenants from './tenants.js'

const RECORDED = 'installation.operator_call'
const TENANTS = '/admin/v1/tenants'
const TENANT = `${TENANTS}/:id`
const DEFAULT_LISTED = 100

export function operatorRoutes(sources: OperatorSources): readonly ServedRoute[] {
  const change = { answer: schemas.operatorTenant, problems: ['E_NOT_FOUND', 'E_STATE'], action: RECORDED } as const
  return [
    bind('listTenants', 'GET', TENANTS, {
      permission: 'tenants:read',
      summary: 'List the tenants, oldest first',
      query: schemas.listTenants,
      answer: schemas.operatorTenantList,
      action: RECORDED,
      operation: ({ query: { limit = DEFAULT_LISTED, offset = 0 } }) => listTenants({ limit, offset }),
    }),
    bind('createTenant', 'POST', TENANTS, {
      status: 201,
      permission: 'tenants:create',
      summary: 'Create a tenant; the secret of its first API key is shown once',
      body: schemas.createTenant,
      answer: schemas.newTenant,
      problems: ['E_NAME_TAKEN'],
      action: RECORDED,
      operation: ({ body: { name, envelope_only = true } }) => createTenant({ name, envelope_only }),
    }),
    bind('readTenant', 'GET', TENANT, {
      ...change,
      permission: 'tenants:read',
      summary: 'Read a tenant',
      problems: ['E_NOT_FOUND'],
      operation: ({ id }) => recordedCallIn('readTenant', id, tenants.readTenantForOperator()),
    }),
    bind('updateTenant', 'PATCH', TENANT, {
      ...change,
      permission: 'tenants:update',
      summary: "Change a tenant's settings; those left out stay the same",
      body: schemas.updateTenant,
      operation: ({ id, body }) => recordedCallIn('updateTenant', id, tenants.updateTenant(body)),
    }),
    bind('suspendTenant', 'POST', `${TENANT}/suspend`, {
      ...change,
      permission: 'tenants:suspend',
      summary: 'Suspend a tenant: all of its calls are refused, and nothing is deleted',
      body: schemas.changeStatus,
      operation: ({ id, body }) => recordedCallIn('suspendTenant', id, tenants.suspendTenant(body)),
    }),
    bind('resumeTenant', 'POST', `${TENANT}/resume`, {
      ...change,
      permission: 'tenants:suspend',
      summary: 'Serve a suspended tenant again',
      body: schemas.changeStatus,
      operation: ({ id, body }) => recordedCallIn('resumeTenant', id, tenants.resumeTenant(body)),
    }),
    bind('listAlarms', 'GET', '/admin/v1/alarms', {
      permission: 'alarms:read',
      summary: 'List the alarms about logs, and what to do about each',
      answer: schemas.alarmList,
      operation: () => listAlarms(),
    }),
    bind('readStatus', 'GET', '/admin/v1/status', {
      permission: 'alarms:read',
      summary:
        'Read the state of the server, and the ages of its anchors, checkpoints, verifications, cosignatures and backups',
      answer: schemas.serverStatus,
      operation: () => readStatus(sources),
    }),
  ]
}

interface Row<Body, Query, Answer> extends Binding<Body, Query, Answer> {
  status?: 201
  permission: OperatorPermission
  body?: ZodMiniType<Body>
  query?: ZodMiniType<Query>
  answer: ZodMiniType<Answer>
}

/** A row's schemas determine the types of its operation. Generated clients call the operation by its id. */
function bind<Body = undefined, Query = undefined, Answer = unknown>(
  operationId: RecordedCall | 'listAlarms' | 'readStatus',
  method: ServedRoute['method'],
  path: string,
  { permission, answer, ...row }: Row<Body, Query, Answer>,
): ServedRoute {
  const call = { operationId, method, path, permissions: [permission], isOperators: true }
  return { status: 200, ...call, ...row, answer: answer as wire.Answer } as unknown as ServedRoute
}

/** A page of the tenants, and the ids of those whose rows are not as the server wrote them. */
type TenantPage = z.infer<typeof schemas.operatorTenantList>

/** Lists tenants, oldest first. A missing tenant has an alarm. */
export function listTenants(page: { limit: number; offset: number }): Operation<TenantPage> {
  return recordedCall('listTenants', page, (services) => readPage(services, page))
}

async function readPage(services: Services, page: { limit: number; offset: number }): Promise<TenantPage> {
  const found: tenants.OperatorTenant[] = []
  const tampered: string[] = []
  await mapInStretches(await listRows(services.sql, page), (row) => {
    try {
      found.push(tenants.viewForOperator(tenants.authenticTenant(services, row)))
    } catch (error) {
      if (!isUnopened(error)) throw error
      tampered.push(row.tenant_id)
    }
  })
  return { tenants: found, count: found.length, tampered }
}

/** Creates a tenant with its first API key, whose secret is shown only here. @throws Refusal E_NAME_TAKEN */
function createTenant(options: tenants.TenantOptions): Operation<tenants.NewTenant> {
  return recordedCall('createTenant', options, (services, caller) => tenants.createTenant(services, options, caller))
}

type RecordedCall = 'listTenants' | 'createTenant' | 'readTenant' | 'updateTenant' | 'suspendTenant' | 'resumeTenant'

/** Carries out a call as the operator, after recording it in the installation's log; if that fails, nothing is done. */
function recordedCall<Answer>(
  call: RecordedCall,
  about: NonNullable<EntryNote['metadata']>,
  carryOut: (services: Services, caller: Caller) => Promise<Answer>,
): Operation<Answer> {
  return ({ services, caller: { actor, ...rest } }) => ({
    entries: [{ action: RECORDED, metadata: { call, ...about } }],
    // In a tenant's log, a bare id would be that of one of the tenant's own API keys.
    release: () => carryOut(services, { ...rest, actor: `operator:${actor}`, apiKey: undefined }),
  })
}

/** Records a call about one tenant, then runs an operation in it. @throws Refusal E_NOT_FOUND */
function recordedCallIn<Answer>(
  call: RecordedCall,
  tenant_id: string,
  operation: Operation<Answer>,
): Operation<Answer> {
  if (!isUuid(tenant_id) || tenant_id === INSTALLATION_ID) throw noTenant()
  return recordedCall(call, { tenant_id }, async (services, caller) => {
    if (!(await services.states.find(tenant_id))) throw noTenant()
    return performAsSystem(services, tenant_id, operation, { caller })
  })
}

const noTenant = () => new Refusal('E_NOT_FOUND', DETAILS.E_NOT_FOUND.tenant)
