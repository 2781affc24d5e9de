// What an application's users download: built as the package is, then bundled for browsers, minified and compressed.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { gzipSync } from 'node:zlib'
import { build } from 'esbuild'
import { describe, expect, it } from 'vitest'

const KB = 1_024

interface Sizes {
  /** The entry and all that it imports at once. */
  atOnce: number
  /** All chunks, those that are loaded later included. */
  all: number
  /** What a page downloads that calls what these sources do: the entry, and the chunks of each with all that they load at once. */
  of(...sources: string[]): number
  /** The sources that are in more than one file. */
  twice: string[]
  /** All that was bundled. */
  code: string
}

/** What only pages with an oblivious index load, and the other budgets leave out. */
const OBLIVIOUS = ['*/oblivious-index.js', '*/oprf.js']

async function bundle(entry: string, external: string[] = OBLIVIOUS, more: string[] = []): Promise<Sizes> {
  const root = fileURLToPath(new URL('../../../packages/sdk/src/', import.meta.url))
  const { outputFiles, metafile } = await build({
    entryPoints: [entry, ...more].map((name) => `${root}${name}`),
    absWorkingDir: root,
    bundle: true,
    minify: true,
    splitting: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    outdir: 'out',
    write: false,
    metafile: true,
    external,
  })
  const size = (path: string) => {
    const file = outputFiles.find((output) => output.path.endsWith(path))
    if (!file) throw new Error(`no output ${path}`)
    return gzipSync(file.contents, { level: 9 }).length
  }
  const withImports = (paths: readonly string[]) => {
    const seen = new Set<string>()
    const visit = (path: string) => {
      if (seen.has(path)) return
      seen.add(path)
      for (const { path: next, kind, external } of metafile.outputs[path]?.imports ?? []) {
        if (kind === 'import-statement' && !external) visit(next)
      }
    }
    paths.forEach(visit)
    return seen
  }
  const outputOf = (source: string) => {
    const found = Object.entries(metafile.outputs).find(([, { entryPoint }]) => entryPoint === source)
    if (!found) throw new Error(`${source} is no file of its own`)
    return found[0]
  }
  const sum = (paths: Iterable<string>) => [...paths].reduce((total, path) => total + size(path), 0)
  const sources = Object.values(metafile.outputs).flatMap(({ inputs }) =>
    Object.entries(inputs).flatMap(([source, { bytesInOutput }]) => (bytesInOutput > 0 ? [source] : [])),
  )
  const twice = sources.filter((source, at) => sources.indexOf(source) !== at)
  const code = outputFiles.map(({ text }) => text).join('\n')
  const of = (...loaded: string[]) => sum(withImports([entry, ...loaded].map(outputOf)))
  return { atOnce: of(), of, all: sum(Object.keys(metafile.outputs)), twice, code }
}

describe('the size for browsers, minified and compressed', () => {
  it('of the default entry is at most 19.4 KB with all that it loads at once, and 80.1 KB with all that it may load', async () => {
    const { atOnce, all } = await bundle('index.ts')
    // The options by which protection is demanded or given are checked at once: context, keyIds, secret.
    expect(atOnce).toBeLessThanOrEqual(19.4 * KB)
    // noble is 6 KB of it, for pages without WebCrypto; ky and the errors of calls 8, once a call has failed; zod, the
    // resources and many records 16; rare rows 6. The more files, the worse they compress: no page loads all of them.
    expect(all).toBeLessThanOrEqual(80.1 * KB)
  })

  it('is at most 35.9 KB to seal one form, and 33.5 KB to show one row', async () => {
    const { of, code } = await bundle('index.ts') // with the exports that such a page leaves out, 1.2 KB
    expect(code).toContain('must be RFC 3339') // zod's schemas are in another chunk
    expect(of('sealing.ts')).toBeLessThanOrEqual(35.9 * KB)
    expect(of('opening.ts')).toBeLessThanOrEqual(33.5 * KB)
  })

  it('counts the table of calls, and not the rules of each, which only servers need', async () => {
    const { code } = await bundle('index.ts')
    expect(code).toContain('/destroy/cancel')
    expect(code).not.toContain('cancel its destruction')
  })

  it('of what the SDK adds to noble is at most 74.1 KB', async () => {
    const { all } = await bundle('index.ts', [...OBLIVIOUS, '@noble/ciphers', '@noble/hashes'])
    expect(all).toBeLessThanOrEqual(74.1 * KB)
  })

  it('of the streams entry is at most 8.6 KB, and an application that imports it beside the default entry loads no code twice', async () => {
    const { all } = await bundle('streams.ts')
    expect(all).toBeLessThanOrEqual(8.6 * KB) // with keyIds and the application's secret
    const { twice, all: both } = await bundle('index.ts', OBLIVIOUS, ['streams.ts'])
    expect(twice).toEqual([])
    expect(both).toBeLessThanOrEqual(86.5 * KB)
  })

  it('of the offline entry is at most 10 KB with all that it loads at once', async () => {
    const { atOnce, all } = await bundle('offline.ts')
    expect(atOnce).toBeLessThanOrEqual(10 * KB) // with keyIds and the application's secret, which an export needs too
    expect(all).toBeLessThanOrEqual(17 * KB) // with the engines that are files of their own: node:crypto, and JavaScript for pages without WebCrypto
  })
})

describe('what oblivious indexes need', () => {
  it.each([
    ['index.ts', 19.4, 17.1],
    ['offline.ts', 10, 16],
  ])('is loaded by no other page, of %s', async (entry, atOnceKb, ownKb) => {
    const [without, whole] = [await bundle(entry), await bundle(entry, [])]
    expect(whole.atOnce).toBeLessThanOrEqual(atOnceKb * KB)
    expect(whole.all - without.all).toBeGreaterThan(10 * KB) // it is there
    expect(whole.all - without.all).toBeLessThanOrEqual(ownKb * KB)
    expect(whole.twice).toEqual([])
  })
})

describe('the package', () => {
  it('needs at most five others at run time, has no install script, and no side effects', () => {
    const path = fileURLToPath(new URL('../../../packages/sdk/package.json', import.meta.url))
    const manifest = JSON.parse(readFileSync(path, 'utf8')) as {
      dependencies: object
      scripts: object
      sideEffects: boolean
    }
    expect(Object.keys(manifest.dependencies).length).toBeLessThanOrEqual(5)
    expect(Object.keys(manifest.scripts)).toEqual(['build', 'prepack'])
    expect(manifest.sideEffects).toBe(false)
  })
})
