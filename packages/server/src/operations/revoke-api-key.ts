/** api_key.revoke: revokes an API key, which cannot be undone. */
import type { Operation } from '../runner/operation.js'
import { getApiKey, writeApiKey } from './shared/api-key.js'

/**
 * Revokes an API key for good; one that is revoked stays so, without an entry. @throws Refusal E_NOT_FOUND
 */
export function revokeApiKey({ api_key_id }: { api_key_id: string }): Operation<void> {
  return async ({ state }) => {
    const row = await getApiKey(state, api_key_id)
    if (row.revoked_at !== null) return { entries: [], release: () => undefined }
    return {
      entries: [{ action: 'api_key.revoke', metadata: { api_key_id, replaces: row.entry_id } }],
      async change(transaction, at) {
        const changes = { revoked_at: at.created_at }
        return { apiKey: await writeApiKey(transaction, { row, changes, at, rowKey: state.rowKey }) }
      },
      release: () => undefined,
    }
  }
}
