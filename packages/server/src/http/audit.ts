/** /v1/audit: the log and its verification. */
import { wire } from '@eaas/protocol'
import { exportAudit } from '../operations/export-audit.js'
import { listAudit } from '../operations/list-audit.js'
import { readAuditCheckpoint } from '../operations/read-audit-checkpoint.js'
import { verifyAudit } from '../operations/verify-audit.js'
import { auditQuery, exportQuery, verifyQuery } from './query.js'
import { type Route, route } from './route.js'

/** Calls that read a whole log: some ten million entries. */
const WHOLE_LOG_TIMEOUT_MS = 10 * 60_000

export const auditRoutes: readonly Route[] = [
  route({
    method: 'GET',
    path: '/v1/audit',
    operationId: 'listAudit',
    summary: 'List audit entries',
    permissions: ['audit:read'],
    status: 200,
    query: auditQuery,
    answer: wire.entryList,
    operation: ({ query: { limit, offset, order, ...filter } }) => listAudit(filter, { limit, offset, order }),
  }),
  route({
    method: 'GET',
    path: '/v1/audit/verify',
    operationId: 'verifyAudit',
    summary: 'Verify the audit log',
    permissions: ['audit:read'],
    status: 200,
    query: verifyQuery,
    answer: wire.verification,
    timeoutMs: WHOLE_LOG_TIMEOUT_MS,
    operation: ({ query, signal }) => verifyAudit({ ...query, signal }),
  }),
  route({
    method: 'GET',
    path: '/v1/audit/checkpoint',
    operationId: 'readAuditCheckpoint',
    summary: 'Get a signed statement of where the audit log ends',
    permissions: ['audit:read'],
    status: 200,
    answer: wire.checkpoint,
    operation: () => readAuditCheckpoint(),
  }),
  route({
    method: 'GET',
    path: '/v1/audit/export',
    operationId: 'exportAudit',
    summary: 'Export the audit log as NDJSON that can be verified offline',
    permissions: ['audit:read'],
    status: 200,
    query: exportQuery,
    contentType: 'application/x-ndjson',
    timeoutMs: WHOLE_LOG_TIMEOUT_MS,
    operation: ({ query }) => exportAudit(query),
  }),
]
