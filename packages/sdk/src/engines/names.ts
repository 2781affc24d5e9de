/** The engines that an application may name. */

/**
 * `auto` takes node:crypto on Node, WebCrypto in browsers and workers, and noble where there is neither or
 * when one fails its known-answer test.
 */
export const ENGINES = ['auto', 'noble', 'node', 'web'] as const
export type EngineName = (typeof ENGINES)[number]
