import { defineConfig } from 'tsup'

// @eaas/protocol is private: its code is inlined, with zod and noble, whose licences are in licenses/.
export default defineConfig({
  entry: ['src/main.ts'],
  format: 'esm',
  target: 'es2022',
  platform: 'node',
  treeshake: true,
  clean: true,
  noExternal: ['@eaas/protocol', /^zod(\/|$)/, /^@noble\//],
})
