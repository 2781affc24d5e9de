import { defineConfig, type Options } from 'tsup'

// @eaas/protocol is private: its code and its types are inlined, the types by way of `paths`, since what is found under
// node_modules counts as external. zod, with which the testing entry parses requests, is inlined too. Everything in `dependencies` stays an
// import.
const common: Options = {
  format: 'esm',
  target: 'es2022',
  platform: 'neutral',
  treeshake: true,
  dts: { compilerOptions: { paths: { '@eaas/protocol': ['../protocol/src/index.ts'] } } },
  noExternal: ['@eaas/protocol', /^zod(\/|$)/],
}

const ENTRIES = [
  'src/index.ts',
  'src/backfill.ts',
  'src/broker.ts',
  'src/drizzle.ts',
  'src/kysely.ts',
  'src/offline.ts',
  'src/prisma.ts',
  'src/streams.ts',
  'src/sync.ts',
  'src/typeorm.ts',
]

/** With noble, which is published as ES modules only: jest and old bundlers could not load it. Its licence is in licenses/. */
const INLINED_IN_COMMONJS = ['@eaas/protocol', /^zod(\/|$)/, /^@noble\//]

export default defineConfig([
  {
    ...common,
    entry: ENTRIES,
    clean: ['!testing/**', '!cjs/**', '!cli/**'],
  },
  // By itself: the chunks that entries share are loaded whole, and those of a service would double what pages load.
  { ...common, entry: { index: 'src/testing.ts' }, outDir: 'dist/testing', clean: true },
  {
    ...common,
    entry: [...ENTRIES, 'src/testing.ts'],
    outDir: 'dist/cjs',
    format: 'cjs',
    clean: true,
    dts: false, // commonjs-types.mjs makes them of the others
    treeshake: false, // rollup would leave `import()` as it is, which jest cannot run; esbuild has shaken already
    splitting: true, // so that entries share what is in them, and an error of one is an instance of the other's class
    noExternal: INLINED_IN_COMMONJS,
  },
  // By itself, for Node: in the files of the others it would be one of their chunks.
  { ...common, entry: ['src/cli/main.ts'], outDir: 'dist/cli', platform: 'node', clean: true, dts: false },
])
