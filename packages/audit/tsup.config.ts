import { defineConfig } from 'tsup'

// @eaas/protocol is private: its code and its types are inlined, the types by way of `paths`, since what is found under node_modules
// counts as external. zod, with which lines of an export are parsed, is inlined too; its licence is in licenses/. noble and commander stay
// imports. The entries share their classes by common chunks; `index` and `formats` run in browsers, so their chunks import no module of Node.
export default defineConfig({
  entry: ['src/index.ts', 'src/formats.ts', 'src/node.ts', 'src/command.ts', 'src/main.ts'],
  format: 'esm',
  target: 'es2022',
  platform: 'neutral',
  external: [/^node:/, '#ed25519'],
  removeNodeProtocol: false,
  treeshake: true,
  clean: true,
  noExternal: ['@eaas/protocol', /^zod(\/|$)/],
  dts: {
    entry: ['src/index.ts', 'src/formats.ts', 'src/node.ts', 'src/command.ts'],
    compilerOptions: { paths: { '@eaas/protocol': ['../protocol/src/index.ts'] } },
  },
})
