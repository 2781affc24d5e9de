// An engine that fails its known-answer test: each call says so to its caller, and to nobody else.
import { afterEach, expect, it, vi } from 'vitest'
import { createClient } from '../../../packages/sdk/src/index.js'
import { createTestService } from '../../../packages/sdk/src/testing.js'

afterEach(() => {
  vi.restoreAllMocks()
})

it('leaves no rejection that nobody handles', async () => {
  const unhandled: unknown[] = []
  const note = (reason: unknown) => unhandled.push(reason)
  process.on('unhandledRejection', note)
  try {
    vi.spyOn(crypto.subtle, 'importKey').mockRejectedValue(new Error('on purpose'))
    const eaas = createClient({ ...createTestService(), engine: 'web' })
    const { id: keyId } = await eaas.keys.create({ name: 'k' })
    for (let call = 0; call < 3; call++) {
      await expect(eaas.encrypt('x', { keyId })).rejects.toThrow()
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    expect(unhandled).toEqual([])
  } finally {
    process.off('unhandledRejection', note)
  }
})
