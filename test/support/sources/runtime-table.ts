/** The table of runtimes in the SDK's docs/runtimes.md, which the suites of test/slow and test/browser/sdk.db.test.ts check. */

export interface Runtime {
  name: string
  loadedBy: string
  /** The engines that work there, in the order of the suite. */
  engines: readonly string[]
}

const ALL = ['noble', 'node', 'web']
const BOTH = 'import, require'

export const RUNTIMES = {
  'node@20.19': { name: 'Node 20.19', loadedBy: BOTH, engines: ALL },
  'node@22': { name: 'Node 22', loadedBy: BOTH, engines: ALL },
  'node@24': { name: 'Node 24', loadedBy: BOTH, engines: ALL },
  'node@26': { name: 'Node 26', loadedBy: BOTH, engines: ALL },
  'deno@2': { name: 'Deno 2', loadedBy: 'import', engines: ALL },
  'bun@1': { name: 'Bun 1', loadedBy: 'import', engines: ALL },
  'workerd@1': { name: 'workerd (Cloudflare Workers)', loadedBy: 'import', engines: ['noble', 'web'] },
  'edge-runtime@4': { name: 'edge-runtime 4 (Vercel)', loadedBy: 'import', engines: ['noble', 'web'] },
  chromium: { name: 'Chromium, pages and workers', loadedBy: 'import', engines: ['noble', 'web'] },
  'vitest jsdom': { name: 'vitest with jsdom', loadedBy: 'import', engines: ALL },
  'vitest happy-dom': { name: 'vitest with happy-dom', loadedBy: 'import', engines: ALL },
  'jest node': { name: 'jest, ts-jest', loadedBy: 'require', engines: ALL },
  'jest jsdom': { name: 'jest with jsdom', loadedBy: 'require', engines: ALL },
  'jest happy-dom': { name: 'jest with happy-dom', loadedBy: 'require', engines: ALL },
  next: { name: 'Next.js 16: action, route, page', loadedBy: 'import', engines: ['node', 'web'] },
  'next edge': { name: "Next.js 16: route with `runtime = 'edge'`", loadedBy: 'import', engines: ['noble', 'web'] },
} satisfies Record<string, Runtime>

/** One line of the table. */
export function rowOf({ name, loadedBy, engines }: Runtime): string {
  return `| ${name} | ${loadedBy} | ${engines.join(', ')} |`
}

/** The whole table, as the page has it. */
export function runtimeTable(): string {
  return ['| runtime | loaded by | engines |', '|---|---|---|', ...Object.values(RUNTIMES).map(rowOf)].join('\n')
}
