/** /v1/api-keys: who may call, and for what. */
import { createApiKey } from '../../operations/create-api-key.js'
import { listApiKeysInPages } from '../../operations/list-api-keys.js'
import { revokeApiKey } from '../../operations/revoke-api-key.js'
import { updateApiKey } from '../../operations/update-api-key.js'
import { bindRoutes } from '../route.js'

export const apiKeyRoutes = bindRoutes({
  listApiKeys: {
    summary: 'List the API keys',
    operation: ({ query }) => listApiKeysInPages(query),
  },
  createApiKey: {
    summary: 'Create an API key; its secret is shown once',
    problems: ['E_LIMIT'],
    action: 'api_key.create',
    operation: ({ body }) => createApiKey(body),
  },
  updateApiKey: {
    summary: 'Change an API key',
    problems: ['E_NOT_FOUND', 'E_STATE'],
    action: 'api_key.update',
    operation: ({ id, body }) => updateApiKey({ api_key_id: id, changes: body }),
  },
  revokeApiKey: {
    summary: 'Revoke an API key for good',
    problems: ['E_NOT_FOUND'],
    action: 'api_key.revoke',
    operation: ({ id }) => revokeApiKey({ api_key_id: id }),
  },
})
