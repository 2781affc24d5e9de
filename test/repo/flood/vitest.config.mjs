// A run of its own for test/repo/run.test.ts: the whole suite never includes these files.
export default {
  test: {
    include: ['*.spec.mjs'],
    pool: 'forks',
    maxWorkers: 1,
    globalSetup: ['../../support/run/run-folder.ts'],
    setupFiles: ['../../support/run/end-with-run.ts'],
  },
}
