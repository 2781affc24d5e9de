/** The reference engine: AES-256-GCM by `@noble/ciphers`, in JavaScript, which runs everywhere. */
export { nobleAead } from '@eaas/protocol'
