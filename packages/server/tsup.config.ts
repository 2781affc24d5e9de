import { spawnSync } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PGlite } from '@electric-sql/pglite'
import type { Plugin } from 'esbuild'
import { build, defineConfig, type Options } from 'tsup'
import { patchedPostgres } from '../postgres/src/patch.js'
import type { Transaction } from './src/core/store/db.js'
import { IMAGE_NAME, packCluster } from './src/embedded/cluster.js'

const require = createRequire(import.meta.url)
// The packages of CommonJS that the server imports. The bundle takes each by `require`: for an `import`, Node searches the
// package's text for the names that it exports, with a lexer in JavaScript, a third of the CPU time of loading the server.
const REQUIRED = ['@fastify/cors', 'commander', 'fastify', 'prom-client']

/** The same instance that an `import` would have. */
const requiredPackages: Plugin = {
  name: 'required-packages',
  setup(build) {
    const filter = new RegExp(`^(${REQUIRED.join('|')})$`)
    build.onResolve({ filter }, ({ path }) => ({ path, namespace: 'required', sideEffects: false }))
    build.onLoad({ filter: /^/, namespace: 'required' }, ({ path }) => ({ contents: contentsFor(path) }))
  },
}

function contentsFor(name: string): string {
  const names = Object.keys(require(name) as object).filter((key) => /^[a-z]\w*$/i.test(key) && key !== 'default')
  return [
    "import { createRequire } from 'node:module'",
    `const loaded = createRequire(import.meta.url)('${name}')`,
    'export default loaded',
    `export const { ${names.join(', ')} } = loaded`,
  ].join('\n')
}

const MIGRATIONS = new URL('migrations/', import.meta.url)
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

// Bundles and loads a module that only this build needs. From `dist`, since modules of the server find files by their place there.
async function load<Module>(path: string): Promise<Module> {
  await build({ ...COMMON, config: false, silent: true, entry: { 'of-the-build': path }, splitting: false })
  const bundle = new URL('dist/of-the-build.js', import.meta.url)
  const module: Module = await import(`${bundle.href}?${path}`)
  await rm(bundle)
  return module
}

// What the server serves at /openapi.json and /docs, made of its own routes: no server loads the program that makes it.
async function writeOpenApi(): Promise<void> {
  const { openApiFiles } = await load<typeof import('../../docs/openapi/files.js')>('../../docs/openapi/files.ts')
  for (const [name, content] of Object.entries(openApiFiles())) await writeFile(`dist/${name}`, content)
}

// A new embedded database with this version's tables, which a first start unpacks: without PostgreSQL's templates, two thirds of its
// files, from which nothing is made, and with a log in files of 1 MB instead of 16.
async function writeClusterImage(): Promise<void> {
  const { makeTables } = await load<typeof import('./src/core/store/migrations.js')>('src/core/store/migrations.ts')
  const dataDir = await mkdtemp(join(tmpdir(), 'eaas-cluster-'))
  const restore = stopClockAndChance()
  try {
    const database = await PGlite.create({ dataDir, initDbStartParams: ['--wal-segsize=1', '--set=wal_recycle=off'] })
    await database.exec('update pg_database set datistemplate = false')
    for (const name of ['template0', 'template1']) await database.exec(`drop database ${name}`)
    await database.transaction(({ sql, exec }) =>
      makeTables(Object.assign(sql, { unsafe: exec }) as unknown as Transaction, MIGRATIONS),
    )
    await database.close()
    await writeFile(`dist/${IMAGE_NAME}`, packCluster(dataDir))
  } finally {
    restore()
    await rm(dataDir, { recursive: true })
  }
}

// PostgreSQL writes the time and random bytes into a new database. A release that is made twice has the same bytes.
function stopClockAndChance(): () => void {
  const crypto = require('node:crypto') as typeof import('node:crypto') // as PGlite takes it
  const { now } = Date
  const { randomFillSync } = crypto
  Object.assign(Date, { now: () => Date.UTC(2026, 0) })
  Object.assign(crypto, { randomFillSync: (bytes: Uint8Array) => bytes.fill(0) })
  return () => {
    Object.assign(Date, { now })
    Object.assign(crypto, { randomFillSync })
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
