// A test runs in a worker of vitest, which needs its own globals: without `process.nextTick`, each message of the worker's
// channel throws, for ever. Code that must be tried on another platform is loaded with test/support/platforms/platform.ts.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { loadOn } from '../support/platforms/platform.js'
import { filesBelow, ROOT } from '../support/sources/source-files.js'

/** Globals that a test may set or remove: Node has none of that name. */
const ADDED = new Set(['location', 'EdgeRuntime', '__dirname'])

/** What a text does to the globals of the process that runs it. */
function changedGlobals(text: string): string[] {
  const stubs = [...text.matchAll(/\bstubGlobal\(\s*'(\w+)'/g)].map(([, name]) => name ?? '')
  const removals = [
    ...text.matchAll(/\b(?:delete \(?globalThis\b|(?:deleteProperty|defineProperty)\(globalThis\b(?:, '(\w+)')?)/g),
  ].map(([found, name]) => name ?? found)
  return [...stubs, ...removals].filter((name) => !ADDED.has(name))
}

describe('the globals of a process that runs tests', () => {
  it('are taken away by no test', () => {
    const files = ['packages', 'test', 'examples'].flatMap(filesBelow).filter((path) => /\.(ts|mjs)$/.test(path))
    const changed = files
      .filter((path) => path !== 'test/repo/globals.test.ts')
      .flatMap((path) => changedGlobals(readFileSync(join(ROOT, path), 'utf8')).map((name) => `${path}: ${name}`))
    expect(changed).toEqual([])
  })

  it.each([
    "vi.stubGlobal('process', {})",
    "vi.stubGlobal(\n  'Buffer', undefined)",
    'delete globalThis.process',
    'delete (globalThis as { process?: unknown }).process',
    "Reflect.deleteProperty(globalThis, 'process')",
  ])('would be found out: %s', (text) => {
    expect(changedGlobals(text)).toHaveLength(1)
  })
})

describe('code loaded as on another platform', () => {
  const load = (globals: Record<string, unknown>) =>
    loadOn<typeof import('../../packages/sdk/src/engines/engine.js')>(
      globals,
      new URL('../../packages/sdk/src/engines/engine.ts', import.meta.url),
    )

  it('sees what differs there, and its test does not', async () => {
    expect((await load({})).nodeCrypto()).toBeDefined()
    expect((await load({ process: undefined })).nodeCrypto()).toBeUndefined()
    expect(process.getBuiltinModule).toBeDefined()
  })
})
