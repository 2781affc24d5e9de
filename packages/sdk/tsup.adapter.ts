import { defineConfig } from 'tsup'

// For the adapters, each built in its own folder. The SDK and the ORM are peer dependencies, so they stay imports.
export default defineConfig({
  entry: ['src/index.ts'],
  format: ['esm', 'cjs'],
  target: 'es2022',
  platform: 'neutral',
  treeshake: true,
  clean: true,
  dts: true,
})
