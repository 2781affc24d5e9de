// A folder for what a run makes once, removed when it ends; every project of the run has the same.
import type { TestProject } from 'vitest/node'
import { type GuardedDir, guardedDir } from './guarded-dir.js'

declare module 'vitest' {
  export interface ProvidedContext {
    /** Folder for what the run makes once, such as `createdCluster`. */
    runDir: string
  }
}

/** The projects load this file once each. */
const shared = globalThis as { eaasTestRun?: GuardedDir }

export default function setup(project: TestProject): void {
  shared.eaasTestRun ??= guardedDir('eaas-test-run')
  project.provide('runDir', shared.eaasTestRun.path)
}
