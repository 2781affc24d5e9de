/** /v1/api-keys: who may call, and for what. */
import { wire } from '@eaas/protocol'
import { createApiKey } from '../operations/create-api-key.js'
import { listApiKeys } from '../operations/list-api-keys.js'
import { revokeApiKey } from '../operations/revoke-api-key.js'
import { updateApiKey } from '../operations/update-api-key.js'
import { apiKeysQuery } from './query.js'
import { type Route, route } from './route.js'

export const apiKeyRoutes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v1/api-keys',
    operationId: 'listApiKeys',
    summary: 'List the API keys',
    permissions: ['api_keys:read'],
    status: 200,
    query: apiKeysQuery,
    answer: wire.apiKeyList,
    operation: ({ query }) => listApiKeys(query),
  }),
  route({
    method: 'POST',
    path: '/v1/api-keys',
    operationId: 'createApiKey',
    summary: 'Create an API key; its secret is shown once',
    problems: ['E_LIMIT'],
    permissions: ['api_keys:manage'],
    status: 201,
    body: wire.createApiKey,
    answer: wire.newApiKey,
    action: 'api_key.create',
    operation: ({ body }) => createApiKey(body),
  }),
  route({
    method: 'PATCH',
    path: '/v1/api-keys/:id',
    operationId: 'updateApiKey',
    summary: 'Change an API key',
    problems: ['E_NOT_FOUND', 'E_STATE'],
    permissions: ['api_keys:manage'],
    status: 200,
    body: wire.updateApiKey,
    answer: wire.apiKey,
    action: 'api_key.update',
    operation: ({ id, body }) => updateApiKey({ api_key_id: id, changes: body }),
  }),
  route({
    method: 'DELETE',
    path: '/v1/api-keys/:id',
    operationId: 'revokeApiKey',
    summary: 'Revoke an API key for good',
    problems: ['E_NOT_FOUND'],
    permissions: ['api_keys:manage'],
    status: 204,
    action: 'api_key.revoke',
    operation: ({ id }) => revokeApiKey({ api_key_id: id }),
  }),
]
