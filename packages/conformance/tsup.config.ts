import { defineConfig } from 'tsup'

// @eaas/protocol is private: its code is inlined, and zod with it, whose licence is in licenses/.
export default defineConfig({
  entry: ['src/main.ts'],
  format: 'esm',
  target: 'es2022',
  platform: 'node',
  treeshake: true,
  clean: true,
  noExternal: ['@eaas/protocol', /^zod(\/|$)/],
})
