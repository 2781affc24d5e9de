/** Binds operations to the calls of operators: the table of routes below /admin/v1. */
import type { OperatorPermission, wire } from '@eaas/protocol'
import type { ZodMiniType } from 'zod/mini'
import type { Binding, ServedRoute } from '../core/api/route.js'
import {
  createTenant,
  listTenants,
  type RecordedCall,
  readTenant,
  resumeTenant,
  suspendTenant,
  updateTenant,
} from './operate-tenants.js'
import * as schemas from './operator-schemas.js'
import { listAlarms, type OperatorSources, readStatus } from './read-alarms.js'

const RECORDED = 'installation.operator_call'
const TENANTS = '/admin/v1/tenants'
const TENANT = `${TENANTS}/:id`
const DEFAULT_LISTED = 100

export function operatorRoutes(sources: OperatorSources): readonly ServedRoute[] {
  return [
    bind({
      operationId: 'listTenants',
      method: 'GET',
      path: TENANTS,
      permission: 'tenants:read',
      summary: 'List the tenants, oldest first',
      query: schemas.listTenants,
      answer: schemas.operatorTenantList,
      action: RECORDED,
      operation: ({ query: { limit = DEFAULT_LISTED, offset = 0 } }) => listTenants({ limit, offset }),
    }),
    bind({
      operationId: 'createTenant',
      method: 'POST',
      path: TENANTS,
      status: 201,
      permission: 'tenants:create',
      summary: 'Create a tenant; the secret of its first API key is shown once',
      body: schemas.createTenant,
      answer: schemas.newTenant,
      problems: ['E_NAME_TAKEN'],
      action: RECORDED,
      operation: ({ body: { name, envelope_only = true } }) => createTenant({ name, envelope_only }),
    }),
    bind({
      operationId: 'readTenant',
      method: 'GET',
      path: TENANT,
      permission: 'tenants:read',
      summary: 'Read a tenant',
      answer: schemas.operatorTenant,
      problems: ['E_NOT_FOUND'],
      action: RECORDED,
      operation: ({ id }) => readTenant(id),
    }),
    bind({
      operationId: 'updateTenant',
      method: 'PATCH',
      path: TENANT,
      permission: 'tenants:update',
      summary: "Change a tenant's settings; those left out stay the same",
      body: schemas.updateTenant,
      answer: schemas.operatorTenant,
      problems: ['E_NOT_FOUND', 'E_STATE'],
      action: RECORDED,
      operation: ({ id, body }) => updateTenant(id, body),
    }),
    bind({
      operationId: 'suspendTenant',
      method: 'POST',
      path: `${TENANT}/suspend`,
      permission: 'tenants:suspend',
      summary: 'Suspend a tenant: all of its calls are refused, and nothing is deleted',
      body: schemas.changeStatus,
      answer: schemas.operatorTenant,
      problems: ['E_NOT_FOUND', 'E_STATE'],
      action: RECORDED,
      operation: ({ id, body }) => suspendTenant(id, body),
    }),
    bind({
      operationId: 'resumeTenant',
      method: 'POST',
      path: `${TENANT}/resume`,
      permission: 'tenants:suspend',
      summary: 'Serve a suspended tenant again',
      body: schemas.changeStatus,
      answer: schemas.operatorTenant,
      problems: ['E_NOT_FOUND', 'E_STATE'],
      action: RECORDED,
      operation: ({ id, body }) => resumeTenant(id, body),
    }),
    bind({
      operationId: 'listAlarms',
      method: 'GET',
      path: '/admin/v1/alarms',
      permission: 'alarms:read',
      summary: 'List the alarms about logs, and what to do about each',
      answer: schemas.alarmList,
      operation: () => listAlarms(),
    }),
    bind({
      operationId: 'readStatus',
      method: 'GET',
      path: '/admin/v1/status',
      permission: 'alarms:read',
      summary:
        'Read the state of the server, and the ages of its anchors, checkpoints, verifications, cosignatures and backups',
      answer: schemas.serverStatus,
      operation: () => readStatus(sources),
    }),
  ]
}

/** The calls of operators, by the name that generated clients give them. */
type OperatorCall = RecordedCall | 'listAlarms' | 'readStatus'

interface Row<Body, Query, Answer> extends Binding<Body, Query, Answer> {
  operationId: OperatorCall
  method: ServedRoute['method']
  path: string
  status?: 201
  permission: OperatorPermission
  body?: ZodMiniType<Body>
  query?: ZodMiniType<Query>
  answer: ZodMiniType<Answer>
}

/** A row's schemas have the types of its operation. */
function bind<Body = undefined, Query = undefined, Answer = unknown>({
  permission,
  answer,
  ...row
}: Row<Body, Query, Answer>): ServedRoute {
  const route = { status: 200, ...row, permissions: [permission], isOperators: true, answer: answer as wire.Answer }
  return route as unknown as ServedRoute
}
