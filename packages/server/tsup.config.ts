import { spawnSync } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import { build, defineConfig, type Options } from 'tsup'
import { patchedPostgres } from '../postgres/src/patch.js'
import { REQUIRED, requiredPackages } from './required-packages.js'
import { IMAGE_NAME, packCluster } from './src/embedded/cluster.js'

const COMMON: Options = {
  format: 'esm',
  target: 'node20',
  platform: 'node',
  define: { EAAS_COMMIT: JSON.stringify(describeCommit()) },
  // Private, so inlined. The driver, because it is patched. zod, because loading its hundred files took half of the time that a command
  // needs to start; its licence is in licenses/. Those of REQUIRED are not inlined: the plugin has them required.
  noExternal: ['@eaas/protocol', '@eaas/postgres', 'postgres', /^zod(\/|$)/, ...REQUIRED],
  external: ['@aws-sdk/client-kms', '@opentelemetry/api'], // optional: root-keys/aws-kms.ts, observe/tracing.ts
  esbuildPlugins: [patchedPostgres, requiredPackages],
}

export default defineConfig({
  ...COMMON,
  entry: ['src/main.ts', 'src/index.ts', 'src/verification-thread-program.ts', 'src/blind-hash-thread-program.ts'],
  clean: true,
  dts: { entry: 'src/index.ts', resolve: ['@eaas/protocol'] },
  onSuccess: async () => {
    await writeOpenApi()
    await writeClusterImage()
    await copyFormats()
    await copyOpenKit()
  },
})

// What the server serves at /openapi.json and /docs, made of its own routes: no server loads the program that makes it. That is in
// `dist` while it runs, since modules of the server find files by their place there.
async function writeOpenApi(): Promise<void> {
  const entry = { 'openapi-files': '../../docs/openapi/files.ts' }
  await build({ ...COMMON, config: false, silent: true, entry, splitting: false })
  const program = new URL('dist/openapi-files.js', import.meta.url)
  const { openApiFiles } = (await import(program.href)) as typeof import('../../docs/openapi/files.js')
  for (const [name, content] of Object.entries(openApiFiles())) await writeFile(`dist/${name}`, content)
  await rm(program)
}

// A new embedded database, which a first start unpacks: without PostgreSQL's templates, two thirds of its files, from which nothing is
// made, and with a log in files of 1 MB instead of 16.
async function writeClusterImage(): Promise<void> {
  const dataDir = await mkdtemp(join(tmpdir(), 'eaas-cluster-'))
  try {
    const database = await PGlite.create({ dataDir, initDbStartParams: ['--wal-segsize=1', '--set=wal_recycle=off'] })
    await database.exec('update pg_database set datistemplate = false')
    for (const name of ['template0', 'template1']) await database.exec(`drop database ${name}`)
    await database.close()
    await writeFile(`dist/${IMAGE_NAME}`, packCluster(dataDir))
  } finally {
    await rm(dataDir, { recursive: true })
  }
}

/** The commit of these sources, with -dirty if they were changed since; empty without git. */
function describeCommit(): string {
  const { stdout } = spawnSync('git', ['describe', '--always', '--dirty', '--abbrev=12', '--exclude=*'], {
    encoding: 'utf8',
  })
  return stdout?.trim() ?? ''
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
