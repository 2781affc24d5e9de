/**
 * What is loaded at the first call: the client's parts. And what the entry has besides, although it is there
 * already: esbuild puts what two files need into a third one, so that without it the entry and the parts
 * would both name all that they share, half a kilobyte for pages.
 */
export { assembleClient } from './client.js'
export { expiringApiKey } from './http/expiring-api-key.js'
export * from './parts.js'
