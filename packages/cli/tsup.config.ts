import { defineConfig, type Options } from 'tsup'

// @eaas/protocol is private: its code is inlined. What is in `dependencies` stays an import, `@eaas/sdk` too, so that an application has one copy of it.
const common: Options = {
  target: 'es2022',
  platform: 'node',
  treeshake: true,
  noExternal: ['@eaas/protocol'],
}

export default defineConfig([
  {
    ...common,
    entry: ['src/backfill.ts', 'src/main.ts'],
    format: 'esm',
    clean: ['!cjs/**'],
    dts: { entry: 'src/backfill.ts', compilerOptions: { paths: {} } }, // the types of the SDK stay imports
  },
  // With noble, which is published as ES modules only. Its licence is in licenses/.
  {
    ...common,
    entry: ['src/backfill.ts'],
    outDir: 'dist/cjs',
    format: 'cjs',
    clean: true,
    noExternal: ['@eaas/protocol', /^@noble\//],
  },
])
