// The SDK and jose in a page: µs an operation, interleaved. The service is the in-memory one: it is asked once for a DEK.
import { createClient } from '@eaas/sdk'
import { createTestService } from '@eaas/sdk/testing'
import { measureText } from './text-rounds.mjs'
import { josePeer } from './web-peers.mjs'

globalThis.measureText = async (options) => {
  const eaas = createClient(createTestService())
  const { id: keyId } = await eaas.keys.create({ name: 'bench' })
  const peers = {
    eaas: {
      encrypt: (value) => eaas.encrypt(value, { keyId }),
      decrypt: (envelope) => eaas.decryptText(envelope),
    },
    'jose A256GCM': await josePeer(),
  }
  const measured = await measureText(peers, { ...options, clock: () => performance.now() })
  eaas.close()
  return measured
}
