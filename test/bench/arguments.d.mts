// Types of arguments.mjs.
export interface Parts {
  server:
    | 'calls'
    | 'tenants'
    | 'processes'
    | 'change'
    | 'overload'
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
export const PARTS: { readonly [Part in keyof Parts]: readonly Parts[Part][] }
export const HELP: string
export function readArguments(argv: readonly string[]): {
  help: boolean
  wanted: string[]
  svg: string | undefined
  options: { quick: boolean; full: boolean; rounds: number; seconds: number }
}
