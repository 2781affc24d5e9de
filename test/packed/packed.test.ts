// The package as an application gets it: what is in it, its types, its size, and that it runs.
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createRequire, isBuiltin } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { gzipSync } from 'node:zlib'
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core'
import { build, type Metafile } from 'esbuild'
import { publint } from 'publint'
import ts from 'typescript'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ADAPTERS, installPackedSdk, pack, runSuiteBy } from '../support/platforms/packed-sdk.js'
import { readHovers } from '../support/sources/hovers.js'
import { PRINTED, ROWS } from '../support/sources/printed-rows.js'
import { ROOT } from '../support/sources/source-files.js'

const KB = 1_024
const ENTRIES = [
  '@eaas/sdk',
  '@eaas/sdk/adapter',
  '@eaas/sdk/broker',
  '@eaas/sdk/maintenance',
  '@eaas/sdk/offline',
  '@eaas/sdk/streams',
  '@eaas/sdk/sync',
  '@eaas/sdk/testing',
]
/** What programs import of all our packages for applications. */
const ALL = [...ENTRIES, ...ADAPTERS]
const TIMEOUT_MS = 120_000
const LIB = ['lib.es2022.d.ts', 'lib.dom.d.ts', 'lib.dom.iterable.d.ts']

/** Uses each entry as an application does; what is wrong must not compile. */
const APPLICATION = `
import { createClient, isEaasError, json, text, type Client, type Envelope, type EaasErrorCode } from '@eaas/sdk'
import { createBroker, type Broker } from '@eaas/sdk/broker'
import { createDek, open, openExport, seal } from '@eaas/sdk/offline'
import { encrypted } from '@eaas/prisma'
import { decryptStream, encryptStream, openRange } from '@eaas/sdk/streams'
import { createTestService, type TestService } from '@eaas/sdk/testing'

const service: TestService = createTestService({ envelopeOnly: false })
export const eaas: Client = createClient(service)
export const broker: Broker = createBroker({ ...service, authenticate: () => ({ id: 'ada' }), allow: { wrap: [] } })
export async function run(keyId: string): Promise<string> {
  const users = eaas.model({ name: 'users', keyId, bind: ['id'], fields: { email: text({ index: 'email_index' }), prefs: json<{ dark: boolean }>() } })
  const row = await users.encrypt({ id: 7, email: 'ada@example.org', prefs: { dark: true } })
  const index: string = row.email_index
  const dark: boolean = (await users.decrypt(row)).prefs.dark
  const envelope: Envelope = await seal('x', { dek: createDek(), wrapped: { wrapped_key: 'AAAA', key_id: keyId, key_version: 1 } })
  const bytes: Uint8Array = await open(envelope, createDek())
  const exported = openExport(await eaas.keys.export(keyId))
  const code: EaasErrorCode | undefined = await exported.decrypt(envelope).then(() => undefined, (error) => isEaasError(error) ? error.code : undefined)
  const stored = new Response(new Blob(['x']).stream().pipeThrough(encryptStream(eaas, { keyId, context: { file: '7' } })))
  const plain: ReadableStream<Uint8Array> | undefined = stored.body?.pipeThrough(decryptStream(eaas, { context: { file: '7' } }))
  const part: ReadableStream<Uint8Array> = openRange(eaas, new Blob([]), { from: 0, to: 1 })
  const ranged = openRange(eaas, async (start, end) => new Uint8Array(end - start))
  service.failNext({ operation: 'unwrap', code: 'E_STATE' })
  const extension: (client: object) => object = encrypted({ User: users })
  // @ts-expect-error: that is no model
  encrypted({ User: 7 })
  // @ts-expect-error: a number is no value
  await eaas.encrypt(7, { keyId })
  // @ts-expect-error: there is no such field
  row.phone
  // @ts-expect-error: there is no such operation
  service.failNext({ operation: 'steal', status: 500 })
  return [index, dark, bytes.length, code, plain, part, ranged, extension].join()
}
`

/**
 * Exports values without saying their types, as an application with `declaration: true` does: it compiles only if the package exports by name each type
 * that TypeScript would write into the declarations. Of each function, these are the types of its parameters, of their members, and of its result.
 */
const EXPORTED = `
import * as sdk from '@eaas/sdk'
import * as adapter from '@eaas/sdk/adapter'
import * as broker from '@eaas/sdk/broker'
import * as maintenance from '@eaas/sdk/maintenance'
import * as offline from '@eaas/sdk/offline'
import * as prisma from '@eaas/prisma'
import * as streams from '@eaas/sdk/streams'
import * as sync from '@eaas/sdk/sync'
import * as testing from '@eaas/sdk/testing'

declare function signaturesOf<T>(functions: T): {
  [K in keyof T]: T[K] extends (...given: infer A) => infer R
    ? { given: { [I in keyof A]: A[I] extends object ? { [M in keyof A[I]]: A[I][M] } : A[I] }; result: R }
    : never
}
export const entries = signaturesOf({ ...sdk, ...adapter, ...maintenance, ...broker, ...offline, ...prisma, ...streams, ...sync, ...testing })
export const eaas = sdk.createClient(testing.createTestService())
export const client = signaturesOf({ ...eaas })
export const { keys, apiKeys, audit, server } = eaas
export const resources = [{ ...keys }, { ...apiKeys }, { ...audit }, { ...server }]
export const exported = { ...offline.openExport('') }

const fields = { name: sdk.text({ index: 'name_index' }), born: sdk.date().nullable(), prefs: sdk.json<{ dark: boolean }>().optional() }
export const spread = { ...fields.name }
export const kindOf = ({ kind }: sdk.FieldSpec): sdk.FieldKind => kind
export const users = eaas.model({ name: 'users', keyId: '', bind: false, fields, indexes: { parts: { ngram: 'name', length: 3, bits: 8, acceptLeakage: true } } })
export const model = signaturesOf({ ...users })
export const find = (name: string) => users.index({ name })
export const findPart = (contains: string) => users.index({ name: { contains } })
export const seal = () => users.encrypt({ id: 7, name: 'Ada', born: null })
export const open = async () => users.decryptMany([await seal()])
export const picked = users.pick('name')
export const change = () => users.encryptPartial({ id: 7, name: 'Ada' })
export const reseal = async () => users.reseal([await seal()])
export const pack = async () => users.pack(await seal())
export const sealAny = <R extends { name: string; born: Date }>(row: R) => users.encrypt(row)
export const modelOf = <F extends sdk.Fields>(fields: F) => eaas.model({ name: 'any', keyId: '', bind: false, fields })
export const extend = <M extends Record<string, prisma.AnyModel>>(models: M) => prisma.encrypted(models)({})
`

/** What only compiles where the types know `Symbol.dispose`, and what does not compile anywhere. */
const CLOSED_AT_THE_END = `
import { createClient, text, type ClientOptions } from '@eaas/sdk'
export const connect = (options: ClientOptions) => createClient(options)
export async function run(options: ClientOptions, keyId: string): Promise<void> {
  using eaas = createClient(options)
  const users = eaas.model({ name: 'users', keyId, bind: ['id'], fields: { email: text() } })
  await users.encrypt({ id: 7, emial: 'ada@example.org' })
}
`

let folder: string
let tarball: string

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'eaas-packed-'))
  tarball = await installPackedSdk(folder)
  await writeFile(join(folder, 'application.ts'), APPLICATION)
  await writeFile(join(folder, 'application.cts'), APPLICATION)
  await writeFile(join(folder, 'exported.ts'), EXPORTED)
  await writeFile(join(folder, 'exported.cts'), EXPORTED)
}, TIMEOUT_MS)
afterAll(() => rm(folder, { recursive: true, force: true }))

describe('the package', () => {
  it('holds what was built, its README, its pages, its specifications with their vectors and the licences, and nothing else', () => {
    const home = join(folder, 'node_modules/@eaas/sdk')
    const entries = readdirSync(home, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
    const files = entries.map(({ parentPath, name }) => join(parentPath, name).slice(home.length + 1))
    expect(files.filter((path) => !/^(dist|docs)\//.test(path)).sort()).toEqual([
      'LICENSE',
      'README.md',
      'adapter/package.json',
      'broker/package.json',
      'licenses/ky.txt',
      'licenses/noble-ciphers.txt',
      'licenses/noble-curves.txt',
      'licenses/noble-hashes.txt',
      'licenses/zod.txt',
      'maintenance/package.json',
      'offline/package.json',
      'package.json',
      'src/models/bindings.md',
      'src/models/bindings.vectors.json',
      'src/models/codecs.md',
      'src/models/codecs.vectors.json',
      'src/models/compact-rows.md',
      'src/models/compact-rows.vectors.json',
      'src/models/index-texts.md',
      'src/models/index-texts.vectors.json',
      'src/models/local-index.md',
      'src/models/local-index.vectors.json',
      'src/models/oblivious-index.md',
      'src/models/oblivious-index.vectors.json',
      'streams/package.json',
      'sync/package.json',
      'testing/package.json',
    ])
    expect(files.filter((path) => path.startsWith('docs/') && !path.endsWith('.md'))).toEqual([])
    expect(files.filter((path) => path.startsWith('dist/') && !/\.(c?js|d\.c?ts)$/.test(path))).toEqual([])
    const { exports } = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8')) as {
      exports: Record<string, Record<string, object>>
    }
    expect(Object.keys(exports).map((path) => path.replace('.', '@eaas/sdk'))).toEqual(ENTRIES)
    const kinds = Object.values(exports).flatMap((conditions) => Object.values(conditions))
    const targets = kinds.flatMap((kind) => Object.values(kind) as string[])
    expect(targets.length).toBe(ENTRIES.length * 4)
    expect(targets.filter((path) => !existsSync(join(home, path)))).toEqual([])
  })

  it('loads files of its own only, and noble: each file of another package would slow down the first call', () => {
    const home = join(folder, 'node_modules/@eaas/sdk/dist')
    const scripts = readdirSync(home, { recursive: true, encoding: 'utf8' }).filter((path) => path.endsWith('.js'))
    const imported = scripts.flatMap((path) =>
      ts.preProcessFile(readFileSync(join(home, path), 'utf8')).importedFiles.map(({ fileName }) => fileName),
    )
    expect(imported.length).toBeGreaterThan(scripts.length)
    expect(new Set(imported.filter((name) => !name.startsWith('.')))).toEqual(
      new Set([
        '@noble/ciphers/aes.js',
        '@noble/curves/ed25519.js',
        '@noble/curves/utils.js',
        '@noble/hashes/hmac.js',
        '@noble/hashes/sha2.js',
      ]),
    )
  })

  it('holds the pages that its README names', () => {
    const home = join(folder, 'node_modules/@eaas/sdk')
    const readme = readFileSync(join(home, 'README.md'), 'utf8')
    const pages = [...readme.matchAll(/\]\((docs\/[^)#]+)/g)].map(([, path = '']) => path)
    expect(pages.length).toBeGreaterThan(5)
    expect(pages.filter((path) => !existsSync(join(home, path)))).toEqual([])
  })

  it.each([
    [
      'node16, in modules and in CommonJS,',
      ['application.ts', 'application.cts'],
      ts.ModuleKind.Node16,
      ts.ModuleResolutionKind.Node16,
    ],
    ['bundler', ['application.ts'], ts.ModuleKind.ESNext, ts.ModuleResolutionKind.Bundler],
    ['node10', ['application.cts'], ts.ModuleKind.CommonJS, ts.ModuleResolutionKind.Node10],
  ])(
    'has types that are right to their last file, as %s looks for them',
    (_, roots, module, moduleResolution) => {
      const all = roots.flatMap((root) => [root, root.replace('application', 'exported')])
      const { complaints, files } = compile(all, { module, moduleResolution, declaration: true })
      expect(complaints).toEqual([])
      const ours = files.filter((path) => path.includes('@eaas/sdk/dist'))
      // Types for CommonJS are files of their own.
      expect(ours.length).toBeGreaterThanOrEqual(ENTRIES.length * roots.length)
    },
    TIMEOUT_MS,
  )

  it.each(['rows.ts', 'rows.cts'])(
    'shows rows by their members in an editor, in %s',
    async (name) => {
      const file = join(folder, name)
      await writeFile(file, ROWS)
      const { Node16 } = ts.ModuleKind
      const options = {
        module: Node16,
        moduleResolution: ts.ModuleResolutionKind.Node16,
        strict: true,
        skipLibCheck: true,
        types: [],
      }
      const hovers = readHovers(file, { ...options, target: ts.ScriptTarget.ES2022, exactOptionalPropertyTypes: true })
      expect(Object.fromEntries(Object.keys(PRINTED).map((one) => [one, hovers.get(one)?.type]))).toEqual(PRINTED)
      expect(hovers.get('normalize')?.description).toMatch(/^Steps that change a value/)
    },
    TIMEOUT_MS,
  )

  it('has types for `using`, and names the field that a row lacks', async () => {
    await writeFile(join(folder, 'using.ts'), CLOSED_AT_THE_END)
    const lib = [...LIB, 'lib.esnext.disposable.d.ts']
    const { complaints } = compile(['using.ts'], {
      module: ts.ModuleKind.Node16,
      moduleResolution: ts.ModuleResolutionKind.Node16,
      lib,
      declaration: true,
    })
    expect(complaints).toEqual([expect.stringMatching(/using\.ts: .*\n +Property 'email' is missing in type/)])
  })

  it('is found by every way of resolution, with the right types, and is a package as the linters of packages want it', async () => {
    expect(await lint(tarball)).toEqual({ problems: [], messages: [] })
  }, 120_000)

  it('is required by programs of CommonJS without an ES module, and so without a warning, and passes the suite', async () => {
    const { failed, ...outcome } = await runSuiteBy(
      process.execPath,
      ['--no-experimental-require-module'],
      folder,
      'main.cjs',
    )
    expect(failed).toEqual([])
    expect(outcome).toEqual({ engines: ['noble', 'node', 'web'], passed: expect.any(Number), followed: 0 })
  }, 120_000)

  it('holds no state that a program with both kinds of modules would have twice to its harm', async () => {
    const require = createRequire(join(folder, 'application.cjs'))
    for (const entry of ALL) {
      const [required, imported] = [
        require(entry) as object,
        (await import(pathToFileURL(resolveIn(folder, entry)).href)) as object,
      ]
      expect(Object.keys(required).sort()).toEqual(Object.keys(imported).sort())
    }
    const cjs = require('@eaas/sdk') as typeof import('@eaas/sdk')
    const esm = (await import(pathToFileURL(resolveIn(folder, '@eaas/sdk')).href)) as typeof import('@eaas/sdk')
    const { encryptStream } = require('@eaas/sdk/streams') as typeof import('@eaas/sdk/streams')
    expect(cjs.createClient).not.toBe(esm.createClient)
    const { createTestService } = require('@eaas/sdk/testing') as typeof import('@eaas/sdk/testing')
    const { open } = require('@eaas/sdk/offline') as typeof import('@eaas/sdk/offline')
    const eaas = esm.createClient(createTestService())
    const { id: keyId } = await eaas.keys.create({ name: 'users' })
    const options = {
      name: 'users',
      keyId,
      bind: false as const,
      fields: { email: cjs.text({ index: 'email_index' }) },
    }
    const model = eaas.model(options)
    expect((await model.decrypt(await model.encrypt({ email: 'ada' }))).email).toBe('ada')
    const { describeModel } = require('@eaas/sdk/maintenance') as typeof import('@eaas/sdk/maintenance')
    expect(() => describeModel(model)).toThrow('of this copy of @eaas/sdk')
    const { createSealedTable } = require('@eaas/sdk/adapter') as typeof import('@eaas/sdk/adapter')
    const table = createSealedTable(model) // adapters take a model of the other copy, and their errors are known to both
    expect(await table.openRows(await table.sealRows([{ email: 'ada' }]))).toMatchObject([{ email: 'ada' }])
    const unreadable: unknown = await table.openRows([{ email: 'ada' }]).catch((reason: unknown) => reason)
    expect([cjs.isEaasError(unreadable), esm.isEaasError(unreadable)]).toEqual([true, true])
    const stream = new Blob(['ada']).stream().pipeThrough(encryptStream(eaas, { keyId })) // a client of the other copy
    expect((await new Response(stream).arrayBuffer()).byteLength).toBe(512 + 3 + 16)
    const error: unknown = await eaas.keys.create({ name: 'users' }).catch((reason: unknown) => reason)
    expect([cjs.isEaasError(error), esm.isEaasError(error)]).toEqual([true, true])
    const refused: unknown = await open({} as never, new Uint8Array(1)).catch((reason: unknown) => reason)
    expect(refused).toBeInstanceOf(cjs.InvalidInputError) // the entries share their classes
    expect(esm.isEaasError(refused)).toBe(true)
  })

  it('passes the suite of all runtimes under this Node, with each engine', async () => {
    const { failed, ...outcome } = await runSuiteBy(process.execPath, [], folder)
    expect(failed).toEqual([])
    expect(outcome).toEqual({ engines: ['noble', 'node', 'web'], passed: expect.any(Number), followed: 0 })
    expect(outcome.passed).toBeGreaterThan(300)
  }, 120_000)
})

describe.each(ADAPTERS)('the package %s', (name) => {
  it('holds what was built, its README and its licence, and nothing else', async () => {
    const { files } = await pack(name)
    const built = ['index.cjs', 'index.d.cts', 'index.d.ts', 'index.js'].map((file) => `dist/${file}`)
    expect(files.toSorted()).toEqual(['LICENSE', 'README.md', ...built, 'package.json'])
  })

  it('demands the SDK and its ORM, and no other package', () => {
    const home = join(folder, 'node_modules', name)
    const manifest = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8')) as Record<string, object>
    expect([manifest.dependencies, manifest.peerDependenciesMeta]).toEqual([undefined, undefined])
    const peers = Object.keys(manifest.peerDependencies ?? {})
    expect(peers).toHaveLength(2)
    const imported = ['index.js', 'index.cjs'].flatMap((file) =>
      ts.preProcessFile(readFileSync(join(home, 'dist', file), 'utf8')).importedFiles.map(({ fileName }) => fileName),
    )
    expect(imported).toContain('@eaas/sdk/adapter')
    expect(imported.filter((one) => ![...peers, '@eaas/sdk/adapter'].includes(one))).toEqual([])
  })

  it(
    'is found by every way of resolution, with the right types, and is a package as the linters of packages want it',
    async () => {
      expect(await lint((await pack(name)).tarball)).toEqual({ problems: [], messages: [] })
    },
    TIMEOUT_MS,
  )
})

describe('the package of the server', () => {
  it(
    'is an ES module and nothing else, and is a package as the linters of packages want it',
    async () => {
      const { problems, messages } = await lint((await pack('@eaas/server')).tarball)
      expect(messages).toEqual([])
      // A program of CommonJS takes it by `import()`; TypeScript's `node10` knows no `exports`. Both stand in its README.
      expect(problems).toEqual([
        { kind: 'NoResolution', entrypoint: '.', resolutionKind: 'node10' },
        { kind: 'CJSResolvesToESM', entrypoint: '.', resolutionKind: 'node16-cjs' },
      ])
    },
    TIMEOUT_MS,
  )

  it('imports only packages that are ES modules: it requires the others, which Node would search for the names that they export', () => {
    const home = join(ROOT, 'packages/server/dist')
    const scripts = readdirSync(home).filter((path) => path.endsWith('.js'))
    const imported = scripts.flatMap((path) =>
      ts.preProcessFile(readFileSync(join(home, path), 'utf8')).importedFiles.map(({ fileName }) => fileName),
    )
    const packages = imported.filter((name) => !name.startsWith('.') && !isBuiltin(name))
    expect(new Set(packages)).toEqual(
      new Set([
        '@opentelemetry/api', // loaded where it is installed
        '@aws-sdk/client-kms', // loaded where the root key is in AWS KMS
        'age-encryption', // loaded by the commands that encrypt to people
        'shamir-secret-sharing', // loaded where the root key is in shares
        '@eaas/audit',
        '@eaas/audit/command',
        '@eaas/audit/formats',
        '@eaas/audit/node',
        '@noble/curves/ed25519.js', // for blind hashes
        '@electric-sql/pglite',
        '@electric-sql/pglite/nodefs',
      ]),
    )
    // Loaded by what uses them, and not by a start.
    const later = /(from|import) *["'](age-encryption|shamir-secret-sharing)["']/
    expect(scripts.filter((path) => later.test(readFileSync(join(home, path), 'utf8')))).toEqual([])
  })
})

describe('the package in a browser', () => {
  it.each(ALL)('imports nothing of Node, nor what is not there: %s', async (entry) => {
    const { outputs, text } = await bundle(entry)
    const imports = Object.values(outputs).flatMap((output) => output.imports.filter(({ external }) => external))
    expect(imports).toEqual([])
    // A bundler that is told nothing of Node would leave these in.
    expect(text.match(/(?:from|import|require)\s*\(?\s*["'](?:node:[^"']+)["']/g)).toBeNull()
    expect(text).not.toMatch(/\bBuffer\.(from|alloc)/)
  })

  it('would be told of an import of Node', async () => {
    await expect(bundle('node:fs')).rejects.toThrow('Could not resolve')
    expect(isBuiltin('node:fs')).toBe(true)
  })

  it.each([
    ['@eaas/sdk', 19.5],
    ['@eaas/sdk/offline', 10.25],
  ])('loads no more at once than its sources would: %s, %s KB', async (entry, limit) => {
    const { outputs, files } = await bundle(entry)
    const seen = new Set<string>()
    const visit = (path: string) => {
      if (seen.has(path)) return
      seen.add(path)
      for (const { path: next, kind } of outputs[path]?.imports ?? []) if (kind === 'import-statement') visit(next)
    }
    visit(Object.keys(outputs).find((path) => outputs[path]?.entryPoint === '<stdin>') ?? '')
    expect(seen.size).toBeGreaterThan(0)
    const sizeOf = (path: string) => gzipSync(files.get(path) ?? '', { level: 9 }).length
    const size = [...seen].reduce((sum, path) => sum + sizeOf(path), 0)
    expect(size).toBeGreaterThan(KB)
    expect(size).toBeLessThanOrEqual(limit * KB)
  })
})

describe('the packages of commands and pages', () => {
  // Both are ES modules, but for `@eaas/cli/backfill`, which programs of CommonJS require too.
  const MODULE_ALONE = ['.', './formats', './command', './node']

  it(
    'are packages as the linters of packages want them',
    async () => {
      const [audit, cli, kit, pages] = await Promise.all([
        lint((await pack('@eaas/audit')).tarball),
        lint((await pack('@eaas/cli')).tarball),
        lint((await pack('@eaas/conformance')).tarball),
        lint((await pack('@eaas/console')).tarball),
      ])
      // The kit is a command alone, and the console has nothing to import: they have no types.
      const untyped = { problems: undefined, messages: [] }
      expect([audit.messages, cli, kit, pages]).toEqual([[], { problems: [], messages: [] }, untyped, untyped])
      expect(audit.problems).toEqual(
        MODULE_ALONE.flatMap((entrypoint) => [
          { kind: 'NoResolution', entrypoint, resolutionKind: 'node10' },
          { kind: 'CJSResolvesToESM', entrypoint, resolutionKind: 'node16-cjs' },
        ]),
      )
    },
    TIMEOUT_MS,
  )

  it('start their commands by a program that is executable', async () => {
    for (const name of ['@eaas/audit', '@eaas/cli', '@eaas/conformance'] as const) {
      const home = join(ROOT, 'packages', name.replace('@eaas/', ''))
      const { bin } = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8')) as { bin: Record<string, string> }
      const [program = ''] = Object.values(bin)
      expect((await pack(name)).files).toContain(program.replace('./', ''))
      expect(readFileSync(join(home, program), 'utf8')).toMatch(/^#!\/usr\/bin\/env node\n/)
    }
  })
})

/** What the linters of packages say: `attw` of the types, `publint` of the rest. */
async function lint(tarball: string): Promise<{ problems: object[] | undefined; messages: object[] }> {
  const data = new Uint8Array(readFileSync(tarball))
  const { problems } = (await checkPackage(createPackageFromTarballData(data))) as { problems?: object[] }
  const { messages } = await publint({ pack: { tarball: data.buffer }, strict: true })
  return { problems, messages }
}

/** The file that `import` of an entry takes. */
function resolveIn(folder: string, entry: string): string {
  const name = entry.split('/').slice(0, 2).join('/')
  const home = join(folder, 'node_modules', name)
  const { exports } = JSON.parse(readFileSync(join(home, 'package.json'), 'utf8')) as {
    exports: Record<string, { import: { default: string } }>
  }
  return join(home, exports[entry.replace(name, '.')]?.import.default ?? '')
}

/** Bundles all of an entry for browsers, as an application that uses everything of it. */
async function bundle(
  entry: string,
): Promise<{ outputs: Metafile['outputs']; text: string; files: Map<string, Uint8Array> }> {
  const { outputFiles, metafile } = await build({
    stdin: { contents: `export * from '${entry}'`, resolveDir: folder },
    absWorkingDir: folder,
    bundle: true,
    splitting: true,
    minify: true,
    format: 'esm',
    platform: 'browser',
    target: 'es2022',
    outdir: 'out',
    write: false,
    metafile: true,
    logLevel: 'silent',
  })
  const files = new Map(outputFiles.map(({ path, contents }) => [path.slice(folder.length + 1), contents]))
  return { outputs: metafile.outputs, text: outputFiles.map(({ text }) => text).join('\n'), files }
}

/** TypeScript's own files, which every program reads. */
const libraries = new Map<string, ts.SourceFile | undefined>()

/** Compiles files of an application against the package: what is wrong with them, and the files that were read. */
function compile(roots: readonly string[], options: ts.CompilerOptions): { complaints: string[]; files: string[] } {
  const all: ts.CompilerOptions = {
    target: ts.ScriptTarget.ES2022,
    lib: LIB,
    strict: true,
    esModuleInterop: true, // zod's types for CommonJS need it, and `tsc --init` sets it
    exactOptionalPropertyTypes: true,
    skipLibCheck: false,
    skipDefaultLibCheck: true, // TypeScript's own
    noEmit: true,
    types: [], // an application of the browser has none of Node's
    ...options,
  }
  const host = ts.createCompilerHost(all)
  const { getSourceFile } = host
  host.getSourceFile = (fileName, ...rest) => {
    if (!/[/\\]typescript[/\\]lib[/\\]lib\.[\w.]+$/.test(fileName)) return getSourceFile(fileName, ...rest)
    if (!libraries.has(fileName)) libraries.set(fileName, getSourceFile(fileName, ...rest))
    return libraries.get(fileName)
  }
  const program = ts.createProgram(
    roots.map((file) => join(folder, file)),
    all,
    host,
  )
  const complaints = ts.getPreEmitDiagnostics(program).map(({ file, messageText }) => {
    return `${file?.fileName ?? ''}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`
  })
  return { complaints, files: program.getSourceFiles().map(({ fileName }) => fileName) }
}
