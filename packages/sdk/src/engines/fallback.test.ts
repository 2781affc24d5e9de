// What a client tells its `onEvent` when it encrypts in JavaScript, for want of a faster engine.
import { describe, expect, it } from 'vitest'
import { type Globals, loadOn } from '../../../../test/support/platforms/platform.js'
import type { ClientEvent, ClientOptions } from '../index.js'
import { createTestService } from '../testing.js'

const { getRandomValues } = crypto
const withoutSubtle = { getRandomValues: getRandomValues.bind(crypto) }
const withWrongSubtle = {
  ...withoutSubtle,
  subtle: { importKey: async () => ({}), encrypt: async () => new ArrayBuffer(31) },
}
const withoutCiphers = { getBuiltinModule: () => ({}) }

/** The events of a client on such a platform, which encrypts at once and then opens. */
async function eventsOn(globals: Globals, options: Partial<ClientOptions> = {}): Promise<ClientEvent[]> {
  const { createClient } = await loadOn<typeof import('../index.js')>(globals, new URL('../index.ts', import.meta.url))
  const service = createTestService()
  const events: ClientEvent[] = []
  const eaas = createClient({ ...service, onEvent: (event) => void events.push(event), ...options })
  const { id: keyId } = await eaas.keys.create({ name: 'users' })
  const sealed = await Promise.all([1, 2, 3].map((value) => eaas.encrypt(`${value}`, { keyId })))
  expect(await eaas.decryptText(sealed[0] as never)).toBe('1')
  eaas.close()
  return events.filter(({ type }) => type === 'fallback')
}

describe('a client that encrypts in JavaScript', () => {
  it.each([
    ['there is neither', undefined, withoutSubtle, 'missing', 'missing'],
    [
      'there is no crypto at all but randomness, and node:crypto lacks ciphers',
      withoutCiphers,
      withoutSubtle,
      'failed',
      'missing',
    ],
    ['there is no Node, and WebCrypto gives wrong answers', undefined, withWrongSubtle, 'missing', 'failed'],
    ['both fail', withoutCiphers, withWrongSubtle, 'failed', 'failed'],
  ])('says so once, with the reason: %s', async (_, process, crypto, node, web) => {
    expect(await eventsOn({ process, crypto })).toEqual([{ type: 'fallback', engine: 'noble', node, web }])
  })

  it('says nothing where it was told to', async () => {
    expect(await eventsOn({ process: undefined, crypto: withoutSubtle }, { engine: 'noble' })).toEqual([])
  })

  it('says nothing where a faster engine is there: one of them is enough', async () => {
    expect(await eventsOn({})).toEqual([])
    expect(await eventsOn({ process: undefined })).toEqual([])
    expect(await eventsOn({ process: withoutCiphers })).toEqual([])
  })

  it('says so for each client', async () => {
    const globals = { process: undefined, crypto: withoutSubtle }
    const { createClient } = await loadOn<typeof import('../index.js')>(
      globals,
      new URL('../index.ts', import.meta.url),
    )
    const counts = [0, 0]
    for (const at of [0, 1]) {
      const onEvent = ({ type }: ClientEvent) => {
        if (type === 'fallback') counts[at] = (counts[at] ?? 0) + 1
      }
      const eaas = createClient({ ...createTestService(), onEvent })
      const { id: keyId } = await eaas.keys.create({ name: 'users' })
      for (const value of ['a', 'b']) await eaas.encrypt(value, { keyId })
      eaas.close()
    }
    expect(counts).toEqual([1, 1])
  })
})
