import { expect, it } from 'vitest'
import type { Context } from '../runner/operation.js'
import { destroySuspendedKey } from './key-destruction.js'

it('a key with a version that its row does not know is not destroyed: an older row was put back', async () => {
  const row = { tenant_id: 't', key_id: 'k', status: 'active', current_version: 1, entry_id: 2 }
  const versions = new Map([1, 2].map((version) => [version, {}]))
  const state = { tenant: { name: 'acme', status: 'suspended' }, findKey: async () => ({ row, versions }) }
  const { change } = await destroySuspendedKey({ key_id: 'k' })({ state } as unknown as Context)
  await expect(change?.(undefined as never, undefined as never)).rejects.toThrow('restored outside the server')
})
