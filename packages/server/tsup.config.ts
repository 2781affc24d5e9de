import { copyFile, mkdir, readdir } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { defineConfig } from 'tsup'
import { patchedPostgres } from './patches/postgres.js'
import { REQUIRED, requiredPackages } from './patches/required.js'

const require = createRequire(import.meta.url)

export default defineConfig({
  entry: ['src/main.ts', 'src/index.ts', 'src/verification-thread-program.ts'],
  format: 'esm',
  target: 'node20',
  platform: 'node',
  clean: true,
  dts: { entry: 'src/index.ts', resolve: ['@eaas/protocol'] },
  // Private, so inlined. The driver, because it is patched. zod, because loading its hundred files took half of the time that a command
  // needs to start; its licence is in licenses/. Those of REQUIRED are not inlined: the plugin has them required.
  noExternal: ['@eaas/protocol', 'postgres', /^zod(\/|$)/, ...REQUIRED],
  external: ['@aws-sdk/client-kms', '@opentelemetry/api'], // optional: root-key/aws-kms.ts, http/tracing.ts
  esbuildPlugins: [patchedPostgres, requiredPackages],
  onSuccess: async () => {
    await copySwaggerUi()
    await copyFormats()
    await copyOpenKit()
  },
})

// The page of /docs needs two files of Swagger UI and none of the code that serves them elsewhere.
async function copySwaggerUi(): Promise<void> {
  await mkdir('dist/swagger-ui', { recursive: true })
  for (const name of ['swagger-ui-bundle.js', 'swagger-ui.css']) {
    await copyFile(require.resolve(`@fastify/swagger-ui/static/${name}`), `dist/swagger-ui/${name}`)
  }
}

// The specifications of the formats that the server shares with the SDK, and their vectors: the tarball has them for whoever reads what is stored.
async function copyFormats(): Promise<void> {
  const protocol = new URL('../protocol/src/', import.meta.url)
  await mkdir('dist/formats', { recursive: true })
  for (const name of await readdir(protocol)) {
    if (/\.(md|vectors\.json)$/.test(name)) await copyFile(new URL(name, protocol), `dist/formats/${name}`)
  }
  // By the tarball's provenance, a release signs the list of all formats.
  await copyFile(new URL('../../docs/formats.sha256', import.meta.url), 'dist/formats/formats.sha256')
}

// The program that opens a recovery kit without ours: whoever has the package has it too. What it needs of the independent readers.
async function copyOpenKit(): Promise<void> {
  const independent = new URL('../../test/independent/', import.meta.url)
  const formats = [
    '__init__',
    'common',
    'envelope_text',
    'envelope_v2',
    'root_key_share',
    'stream',
    'uses',
    'wrapped_key',
    'wrapped_key_v2',
  ]
  await mkdir('dist/open-kit/formats', { recursive: true })
  for (const name of ['open_kit.py', ...formats.map((format) => `formats/${format}.py`)]) {
    await copyFile(new URL(name, independent), `dist/open-kit/${name}`)
  }
}
