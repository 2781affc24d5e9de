import { defineConfig, type Options } from 'tsup'

// @eaas/protocol is private: its code and its types are inlined, the types by way of `paths`, since what is found under
// node_modules counts as external. Everything in `dependencies` stays an import.
const common: Options = {
  format: 'esm',
  target: 'es2022',
  platform: 'neutral',
  treeshake: true,
  dts: { compilerOptions: { paths: { '@eaas/protocol': ['../protocol/src/index.ts'] } } },
  noExternal: ['@eaas/protocol'],
}

export default defineConfig([
  { ...common, entry: ['src/index.ts', 'src/broker.ts', 'src/offline.ts'], clean: ['!testing/**'] },
  // By itself: the chunks that entries share are loaded whole, and those of a service would double what pages load.
  { ...common, entry: { index: 'src/testing.ts' }, outDir: 'dist/testing', clean: true },
])
