/** /v1/audit: the log and its verification. */
import { exportAudit } from '../../operations/export-audit.js'
import { listAudit } from '../../operations/list-audit.js'
import { readAuditCheckpoint } from '../../operations/read-audit-checkpoint.js'
import { verifyAudit } from '../../operations/verify-audit.js'
import { bindRoutes } from '../route.js'

/** Calls that read a whole log: some ten million entries. */
const WHOLE_LOG_TIMEOUT_MS = 10 * 60_000

export const auditRoutes = bindRoutes({
  listAudit: {
    summary: 'List audit entries',
    operation: ({ query: { limit, offset, order, ...filter } }) => listAudit(filter, { limit, offset, order }),
  },
  verifyAudit: {
    summary: 'Verify the audit log',
    timeoutMs: WHOLE_LOG_TIMEOUT_MS,
    operation: ({ query, signal }) => verifyAudit({ ...query, signal }),
  },
  readAuditCheckpoint: {
    summary: 'Get a signed statement of where the audit log ends',
    operation: () => readAuditCheckpoint(),
  },
  exportAudit: {
    summary: 'Export the audit log as NDJSON that can be verified offline',
    contentType: 'application/x-ndjson',
    timeoutMs: WHOLE_LOG_TIMEOUT_MS,
    operation: ({ query }) => exportAudit(query),
  },
})
