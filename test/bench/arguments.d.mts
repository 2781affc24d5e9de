// Types of arguments.mjs.
export interface Parts {
  server:
    | 'calls'
    | 'tenants'
    | 'processes'
    | 'change'
    | 'neighbours'
    | 'verification'
    | 'embedded'
    | 'idle'
    | 'growth'
    | 'peer'
    | 'limits'
    | 'blind'
  audit: 'append' | 'storage' | 'scale'
  sdk: 'node' | 'rows' | 'streams' | 'first' | 'chromium'
  profile: 'profile'
}
/** A Node.js to measure on. */
export interface Node {
  path: string
  version: string
  openssl: string
}
export const PARTS: { readonly [Part in keyof Parts]: readonly Parts[Part][] }
export const HELP: string
export function readArguments(argv: readonly string[]): {
  help: boolean
  wanted: string[]
  svg: string | undefined
  nodes: Node[]
  options: { quick: boolean; full: boolean; rounds: number; seconds: number }
}
