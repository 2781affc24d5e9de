/** Set by the build. */
declare const VERSION: string
/** The text of the verifier's worker. */
declare const WORKER_SCRIPT: string
declare module '*.css'
