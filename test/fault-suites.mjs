// What `npm run test:slow -- NAME` runs.
/** The test files of a folder by their names, which stand between blanks. */
export const files = (folder, names) => names.split(' ').map((name) => `test/${folder}/${name}.test.ts`)

export const FAULT_SUITES = {
  crash: [
    ...files('slow', 'disk-full drain'),
    ...files('faults', 'crash postgres-crash drain graceful-stop stop-connections'),
    ...files('custody', 'killed killed-process'),
    ...files('cli', 'data-directory no-database root-key'),
  ],
  database: [
    ...files(
      'faults',
      'database-down silent-database terminated-back-ends batch-outage commit failover overload pooler',
    ),
    ...files(
      'faults',
      'pooled-ledger failed-jobs two-processes many-tenants fair-under-change migrations clock-ahead wrong-clock',
    ),
    ...files(
      'faults',
      'changed-login login-as-libpq schema hidden-rows serving-role shared-appends start-connections text-formats',
    ),
    ...files('slow', 'two-versions audit-scale rolled-back ha/ha distributed move-tenant'),
    ...files('cli', 'backup rehearsed-restore move-to-postgres doctor'),
    ...files('api', 'counted-wraps health'),
    'test/audit/retention/',
    'test/custody/migrated.test.ts',
  ],
  tamper: [
    ...files('slow', 'mutation verify-export'),
    ...files('faults', 'changed-schema erased-keys search-path types-like-functions'),
    ...files('cli', 'tampered'),
    'test/audit/',
  ],
  access: [
    ...files('api', 'access api-keys budgets listed-keys on-behalf-of operators server-mode'),
    ...files('faults', 'two-processes fair-under-change'),
    'packages/server/src/core/runner/admission.test.ts',
    'packages/server/src/core/http/request-head.test.ts',
  ],
  input: [
    ...files('api', 'problems bounds unknown-parameters openapi request-log refusals'),
    ...files('faults', 'fuzz floods'),
    ...files('slow', 'canaries'),
    ...files('cli', 'keeps-nothing log-output'),
    'packages/server/src/core/http/bodies/',
    'packages/protocol/src/wire',
  ],
  sdk: [...files('slow', 'cross-language ivs runtimes'), 'test/sdk/', 'packages/sdk/src/'],
  soak: files('slow', 'soak'),
}
