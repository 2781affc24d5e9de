// A folder for what a run makes once and for the temporary files of its tests, removed when it ends; every project of the run has the same.
import { chmodSync } from 'node:fs'
import type { TestProject } from 'vitest/node'
import { type GuardedDir, guardedDir } from './guarded-dir.js'

declare module 'vitest' {
  export interface ProvidedContext {
    /** Folder for what the run makes once, such as `createdCluster`, and the temp folder of its workers. */
    runDir: string
  }
}

/** The projects load this file once each. */
const shared = globalThis as { eaasTestRun?: GuardedDir }

export default function setup(project: TestProject): void {
  shared.eaasTestRun ??= guardedDir('eaas-run') // short, because paths of sockets may not be long
  chmodSync(shared.eaasTestRun.path, 0o711) // the account of a PostgreSQL gets to what it owns below
  project.provide('runDir', shared.eaasTestRun.path)
}
