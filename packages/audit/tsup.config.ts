import { defineConfig } from 'tsup'

// @eaas/protocol is private: its code and its types are inlined, the types by way of `paths`, since what is found under node_modules
// counts as external. zod, with which lines of an export are parsed, is inlined too; its licence is in licenses/. noble stays an import.
export default defineConfig({
  entry: ['src/index.ts'],
  format: 'esm',
  target: 'es2022',
  platform: 'neutral',
  treeshake: true,
  clean: true,
  noExternal: ['@eaas/protocol', /^zod(\/|$)/],
  dts: { compilerOptions: { paths: { '@eaas/protocol': ['../protocol/src/index.ts'] } } },
})
