/** `@eaas/cli/backfill`: encrypts a table that is in use, and counts the forms of its values. */
export {
  type AnyModel,
  DatabaseError,
  type FieldCounts,
  type IndexCounts,
  type Reader,
  type Row,
  type TableColumns,
  type TableCounts,
} from '@eaas/sdk/maintenance'
export { type AwsDecrypted, type AwsMessageOptions, awsMessageReader } from './backfill/aws.js'
export {
  type BackfillOptions,
  type BackfillReport,
  type BackfillWork,
  backfill,
  type InspectOptions,
  type InspectReport,
  inspectTable,
} from './backfill/backfill.js'
export { type CloakOptions, cloakReader } from './backfill/cloak.js'
export { type ConstrainOptions, type ConstrainReport, constrainTable } from './backfill/constrain.js'
export { type PostgresOptions, type PostgresQuery, postgresTable } from './backfill/postgres.js'
export type { BackfillProgress, FailureCause, RowFailure } from './backfill/run.js'
export { type Dialect, type SealedCheck, type SealedCheckOptions, sealedChecks } from './backfill/sealed-checks.js'
export type { Table, TableChange, TableRow, TableSource } from './backfill/table.js'
export { type TransitOptions, type TransitPost, transitReader } from './backfill/transit.js'
