import { defineConfig, type Options } from 'tsup'

// @eaas/protocol is private: its code and its types are inlined, the types by way of `paths`, since what is found under
// node_modules counts as external. ky and zod are inlined too, since the first call would otherwise load a file for each of
// theirs; their licences are in licenses/. Everything in `dependencies` stays an import: noble, which is loaded only where it is needed.
const INLINED = ['@eaas/protocol', 'ky', /^zod(\/|$)/]
const common: Options = {
  format: 'esm',
  target: 'es2022',
  platform: 'neutral',
  treeshake: true,
  noExternal: INLINED,
}

const ENTRIES = [
  'src/index.ts',
  'src/adapter.ts',
  'src/broker.ts',
  'src/maintenance.ts',
  'src/offline.ts',
  'src/streams.ts',
  'src/sync.ts',
]

/** With noble, which is published as ES modules only: jest and old bundlers could not load it. Its licence is in licenses/. */
const INLINED_IN_COMMONJS = [...INLINED, /^@noble\//]

/** The types, of /testing too: a second run of the compiler would take as long again. */
const DTS = {
  compilerOptions: { paths: { '@eaas/protocol': ['../protocol/src/index.ts'] } },
  entry: { ...byName(ENTRIES), 'testing/index': 'src/testing.ts' },
}

function byName(entries: string[]): Record<string, string> {
  return Object.fromEntries(entries.map((path) => [path.replace(/^src\/(.*)\.ts$/, '$1'), path]))
}

export default defineConfig([
  {
    ...common,
    entry: ENTRIES,
    clean: ['!testing/**', '!cjs/**'],
    dts: DTS,
  },
  // By itself: the chunks that entries share are loaded whole, and those of a service would double what pages load.
  { ...common, entry: { index: 'src/testing.ts' }, outDir: 'dist/testing', clean: ['!*.d.ts'] },
  {
    ...common,
    entry: [...ENTRIES, 'src/testing.ts'],
    outDir: 'dist/cjs',
    format: 'cjs',
    clean: true,
    treeshake: false, // rollup would leave `import()` as it is, which jest cannot run; esbuild has shaken already
    splitting: true, // so that entries share what is in them, and an error of one is an instance of the other's class
    noExternal: INLINED_IN_COMMONJS,
  },
])
