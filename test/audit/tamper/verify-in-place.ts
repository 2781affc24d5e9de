// Verifies a tenant's log in the database, by a server that has loaded nothing and by the verifier that shares no code with it.
import { currentKey } from '../../../packages/server/src/core/audit/formats/chain.js'
import { verifyLog } from '../../../packages/server/src/core/audit/verify/verify.js'
import { verifyIndependently } from '../../independent/verifier.js'
import { type Scene, serverOf } from '../../support/audit/audit-scene.js'
import type { Service } from '../../support/service/service.js'

/** The verdict of the server, then that of the independent verifier. */
export async function verifyInPlace(service: Service, tenant_id: string) {
  const state = await serverOf(service).services.states.find(tenant_id)
  if (!state) throw new Error('no tenant')
  const { auditKey } = state
  const { storeKeys } = service.services
  const sql = service.services.sql as unknown as Scene['sql']
  return [
    await verifyLog(service.services.sql, { tenant_id, auditKey, storeKeys }),
    await verifyIndependently(sql, {
      tenant_id,
      auditKey: currentKey(auditKey).export(),
      storeKeys: new Map([...storeKeys.keys].map(([number, key]) => [number, key.export()])),
    }),
  ]
}
