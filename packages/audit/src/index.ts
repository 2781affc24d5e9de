/** Formats of an EaaS server's audit log, and their verification offline. Runs in Node and in browsers. */
export type { Permission } from '@eaas/protocol'
export * from './formats.js'
export { writeCsv, writeJson } from './report/data.js'
export type { Evidence, EvidenceSource } from './report/evidence.js'
export type { EntryFilter, Figure, FilteredEntry } from './report/figure.js'
export { type PageOptions, writePage } from './report/page.js'
export { createReportReader, listTables, type Report, type ReportPeriod, type ReportReader } from './report/report.js'
export { createRightsSectionReader, type RightsSectionReader } from './report/rights.js'
export { STYLE as REPORT_STYLE } from './report/style.js'
export {
  type Cell,
  type Column,
  type Day,
  type Kind,
  type Row,
  type Section,
  type Table,
  type Tone,
  withNames,
} from './report/table.js'
export { type ComparedCheckpoints, describeStatement, KeptNoteError } from './verify/compare-checkpoints.js'
export type { ClockAhead, EntryTimes } from './verify/entry-times.js'
export * from './verify/exported-anchor.js'
export * from './verify/join-exports.js'
export * from './verify/kept-checkpoint.js'
export * from './verify/prove-entries.js'
export {
  ExportFault,
  isAnchor,
  isLinks,
  isTrailer,
  readAnchorLine,
  readEntry,
  readHeader,
  readLinksLine,
} from './verify/read-export.js'
export * from './verify/recorded-rights.js'
export * from './verify/rights-report.js'
export * from './verify/verify-compared.js'
export * from './verify/verify-export.js'
export * from './verify/verify-proof.js'
