/**
 * What is loaded at the first call: the client's parts. And the client, although it is there already: esbuild puts what two files
 * need into a third one, so that without it the client and its parts would both name all that they share, half a kilobyte for pages.
 */
export { assembleClient } from './client.js'
export * from './parts.js'
