// A rotation of the store key that does not wait until every process can have read the new one.
import { createSecretKey } from 'node:crypto'
import type { RootKeyProvider } from '../../../packages/server/src/core/crypto/key-hierarchy.js'
import {
  rotateStoreKey,
  type StoreKeyRotation,
} from '../../../packages/server/src/operate/operations/rotate-store-key.js'
import { localProvider } from '../../../packages/server/src/root-keys/local-key.js'
import { ROOT_KEY, type Service } from '../service/service.js'

/** Makes the provider that wraps a service's store keys under a root key in base64. */
export function providerOf(base64: string = ROOT_KEY): RootKeyProvider {
  return localProvider(createSecretKey(Buffer.from(base64, 'base64')), { kind: 'variable', name: 'EAAS_ROOT_KEY' })
}

/** Makes each new store key as old as one that every process has read; returns a function that ends that. */
export function ageStoreKeys({ services: { sql } }: Service): () => void {
  const age = () => sql`update store_keys set created_at = created_at - interval '1 minute'`.catch(() => undefined)
  const aging = setInterval(age, 50)
  return () => clearInterval(aging)
}

export async function rotateAged(
  service: Service,
  options: Partial<Parameters<typeof rotateStoreKey>[1]> = {},
): Promise<StoreKeyRotation> {
  const end = ageStoreKeys(service)
  return rotateStoreKey(service.services, { provider: providerOf(), ...options }).finally(end)
}
