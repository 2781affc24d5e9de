// The rules of the house, read from the import lines: who may know whom, and who touches what.
import { existsSync, readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import {
  decisionsByServices,
  environmentReads,
  type Import,
  parseSource,
  ROOT,
  resolveImport,
  type SourceFile,
  sourcesBelow,
  taggedTemplates,
  usesGlobal,
  usesName,
} from '../support/sources/source-files.js'

const protocol = sourcesBelow('packages/protocol/src')
const audit = sourcesBelow('packages/audit/src')
/** What `@eaas/audit` itself is made of: the other entries are for Node. */
const auditInBrowsers = audit.filter(({ path }) =>
  /\/src\/(formats|verify|report)\/|\/src\/(crypto|formats|index)\.ts$/.test(path),
)
const sdk = sourcesBelow('packages/sdk/src')
const cli = sourcesBelow('packages/cli/src')
const conformance = sourcesBelow('packages/conformance/src')
const server = sourcesBelow('packages/server/src')
/** The packages for ORMs. */
const ADAPTERS = ['drizzle', 'kysely', 'prisma', 'typeorm']
const adapters = ADAPTERS.flatMap((name) => sourcesBelow(`packages/${name}/src`))
const all = [...protocol, ...audit, ...sdk, ...cli, ...conformance, ...adapters, ...server]

const SERVER = 'packages/server/src/'

/** Every import that breaks a rule, as a line to read. */
function breaches(files: readonly SourceFile[], isBreach: (file: SourceFile, found: Import) => boolean): string[] {
  return files.flatMap((file) =>
    file.imports.filter((found) => isBreach(file, found)).map(({ specifier }) => `${file.path} imports ${specifier}`),
  )
}

function pathsOf(files: readonly SourceFile[]): string[] {
  return files.map(({ path }) => path)
}

/** The files that import a package, or a part of it. */
function importersOf(files: readonly SourceFile[], name: string): SourceFile[] {
  return files.filter(({ imports }) => imports.some(({ specifier }) => packageOf(specifier) === name))
}

/** An import between two files of the project. */
interface Step {
  file: string
  target: string
  typeOnly: boolean
}

/** The imports between files. One by `import()` is a step like any other: it decides when a file runs, and not which files need each other. */
function stepsOf(files: readonly SourceFile[]): Step[] {
  return files.flatMap((file) =>
    file.imports.flatMap(({ specifier, typeOnly }) => {
      const target = resolveImport(file, specifier)
      return target === undefined ? [] : [{ file: file.path, target, typeOnly }]
    }),
  )
}

/** Each circle of files that need each other to run; types need nothing. */
function circlesOf(steps: readonly Step[]): string[] {
  const next = new Map<string, string[]>()
  for (const { file, target, typeOnly } of steps) if (!typeOnly) next.set(file, [...(next.get(file) ?? []), target])
  const done = new Set<string>()
  const circles: string[] = []
  const walk = (path: string, way: string[]) => {
    if (way.includes(path)) circles.push([...way.slice(way.indexOf(path)), path].join(' -> '))
    if (done.has(path) || way.includes(path)) return
    for (const target of next.get(path) ?? []) walk(target, [...way, path])
    done.add(path)
  }
  for (const path of next.keys()) walk(path, [])
  return circles
}

function packageOf(specifier: string): string {
  return specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/')
}

describe('the packages', () => {
  it('are there to be read', () => {
    expect(protocol.length).toBeGreaterThan(5)
    expect(audit.length).toBeGreaterThan(15)
    expect(sdk.length).toBeGreaterThan(10)
    expect(cli.length).toBeGreaterThan(10)
    expect(server.length).toBeGreaterThan(40)
  })

  it('reach each other by name only, never by a path', () => {
    const home = (path: string) => path.split('/').slice(0, 3).join('/')
    expect(
      breaches(all, (file, { specifier }) => {
        const target = resolveImport(file, specifier)
        const isManifest = target?.endsWith('/package.json') // data, which the build copies
        return target !== undefined && !isManifest && home(target) !== home(file.path)
      }),
    ).toEqual([])
  })

  it.each(['protocol', 'audit', 'sdk', 'cli', 'conformance', 'server', ...ADAPTERS])(
    'of %s declare each package that they import',
    (name) => {
      const manifest = JSON.parse(readFileSync(join(ROOT, `packages/${name}/package.json`), 'utf8'))
      const declared = Object.keys({
        ...manifest.dependencies,
        ...manifest.devDependencies,
        ...manifest.peerDependencies,
        ...manifest.imports, // what they lead to is checked by Node
      })
      const files = all.filter(({ path }) => path.startsWith(`packages/${name}/`))
      expect(
        breaches(files, (_, { specifier }) => {
          if (specifier.startsWith('(')) return false // the test below
          return !specifier.startsWith('.') && !isBuiltin(specifier) && !declared.includes(packageOf(specifier))
        }),
      ).toEqual([])
    },
  )

  it('import nothing by a name that is computed', () => {
    const LOADS_MODELS = 'packages/cli/src/model-module.ts' // a module of the application, which the command line names
    const files = all.filter(({ path }) => path !== LOADS_MODELS)
    expect(breaches(files, (_, { specifier }) => specifier.startsWith('('))).toEqual([])
  })
})

describe('the protocol', () => {
  it('imports nothing of ours', () => {
    expect(breaches(protocol, (_, { specifier }) => specifier.startsWith('@eaas/'))).toEqual([])
  })

  it('imports nothing of Node, not even a type', () => {
    expect(breaches(protocol, (_, { specifier }) => isBuiltin(specifier))).toEqual([])
  })
})

describe('what runs in browsers', () => {
  const portable = [...protocol, ...auditInBrowsers, ...sdk, ...adapters]

  it('imports nothing of Node but types', () => {
    expect(breaches(portable, (_, { specifier, typeOnly }) => isBuiltin(specifier) && !typeOnly)).toEqual([])
  })

  it('never says Buffer, which is not there', () => {
    expect(pathsOf(portable.filter((file) => usesGlobal(file, 'Buffer')))).toEqual([])
  })

  it('reaches the Buffer of Node through globalThis in two places', () => {
    const reaching = portable.filter((file) => usesName(file, 'Buffer'))
    expect(pathsOf(reaching)).toEqual(['packages/protocol/src/bytes.ts', 'packages/audit/src/crypto.ts'])
  })

  it('imports no other package of ours than the protocol', () => {
    expect(
      breaches(
        [...audit, ...sdk],
        (_, { specifier }) => specifier.startsWith('@eaas/') && packageOf(specifier) !== '@eaas/protocol',
      ),
    ).toEqual([])
  })
})

describe('the package of the audit log', () => {
  it('needs the protocol, noble and zod alone to verify an export', () => {
    const packages = auditInBrowsers.flatMap(({ imports }) =>
      imports.filter(({ specifier }) => !specifier.startsWith('.')),
    )
    const names = packages.map(({ specifier }) => packageOf(specifier))
    expect([...new Set(names)].sort()).toEqual(['#ed25519', '@eaas/protocol', '@noble/hashes', 'zod'])
  })

  it('imports nothing of Node for browsers, not even a type', () => {
    expect(auditInBrowsers.length).toBeGreaterThan(15)
    expect(breaches(auditInBrowsers, (_, { specifier }) => isBuiltin(specifier))).toEqual([])
  })

  it('knows the command line in command/ and main.ts only', () => {
    const knowing = pathsOf(importersOf(audit, 'commander'))
    expect(knowing.length).toBeGreaterThan(3)
    expect(knowing.filter((path) => !path.startsWith('packages/audit/src/command/'))).toEqual([])
  })

  it('hands its environment to readService and readWitnessConfig, and reads it nowhere else', () => {
    const reading = audit.flatMap((file) => environmentReads(file).map((read) => `${file.path}: ${read}`))
    expect(reading.sort()).toEqual([
      'packages/audit/src/command/follow.ts: readService(process.env, apiKeyFile)',
      'packages/audit/src/command/witness.ts: readWitnessConfig(process.env)',
    ])
  })

  it('verifies a Merkle proof by one file', () => {
    const merkle = audit.find(({ path }) => path === 'packages/audit/src/formats/merkle.ts')
    expect(merkle?.imports.map(({ specifier }) => specifier)).toEqual(['@eaas/protocol', '../crypto.js'])
  })
})

describe('the adapters for ORMs', () => {
  const ENTRIES = ['@eaas/sdk', '@eaas/sdk/adapter']

  it('import the public entries of the SDK, their own ORM, and nothing else', () => {
    for (const name of ADAPTERS) {
      const sources = sourcesBelow(`packages/${name}/src`)
      expect(sources.length).toBeGreaterThan(5)
      const { peerDependencies } = JSON.parse(readFileSync(join(ROOT, `packages/${name}/package.json`), 'utf8'))
      const [orm, ...others] = Object.keys(peerDependencies).filter((peer) => peer !== '@eaas/sdk')
      expect(others).toEqual([])
      expect(
        breaches(
          sources,
          (_, { specifier }) =>
            !specifier.startsWith('.') && !ENTRIES.includes(specifier) && packageOf(specifier) !== orm,
        ),
      ).toEqual([])
    }
  })

  it('are imported by no other package of ours', () => {
    const names = ADAPTERS.map((name) => `@eaas/${name}`)
    expect(
      breaches([...protocol, ...sdk, ...server], (_, { specifier }) => names.includes(packageOf(specifier))),
    ).toEqual([])
  })
})

describe('the command line', () => {
  it('imports no other package of ours than the SDK, by its public entries, and the protocol', () => {
    expect(importersOf(cli, '@eaas/sdk').length).toBeGreaterThan(5)
    expect(
      breaches(
        cli,
        (_, { specifier }) =>
          specifier.startsWith('@eaas/') && !['@eaas/sdk', '@eaas/protocol'].includes(packageOf(specifier)),
      ),
    ).toEqual([])
  })

  it('has readers and a backfill that know none of its commands', () => {
    const inside = stepsOf(cli).filter(({ file }) => file.startsWith('packages/cli/src/backfill/'))
    expect(inside.filter(({ target }) => !target.startsWith('packages/cli/src/backfill/'))).toEqual([])
  })
})

describe('the conformance kit', () => {
  it('calls servers by fetch alone: of the SDK it imports what opens offline, and of the server nothing', () => {
    const OURS = ['@eaas/protocol', '@eaas/protocol/blind-hash', '@eaas/audit', '@eaas/sdk/offline']
    expect(conformance.length).toBeGreaterThan(10)
    expect(
      breaches(conformance, (_, { specifier }) => specifier.startsWith('@eaas/') && !OURS.includes(specifier)),
    ).toEqual([])
  })
})

describe('ciphers', () => {
  const mayTouch =
    /^packages\/(server\/src\/core\/crypto|sdk\/src\/engines)\/|^packages\/protocol\/src\/(noble-)?aead\.ts$/

  it('are touched by crypto/, the engines of the SDK and the AEAD of the protocol only', () => {
    const touching = all.filter(
      (file) =>
        importersOf([file], '@noble/ciphers').length > 0 ||
        ['createCipheriv', 'createDecipheriv', 'subtle', 'gcm'].some((name) => usesName(file, name)),
    )
    expect(touching.length).toBeGreaterThanOrEqual(3)
    expect(pathsOf(touching).filter((path) => !mayTouch.test(path))).toEqual([])
  })
})

describe('the server', () => {
  /** The folder of SQL of a room, and the room of the embedded database. */
  const STORE = /^packages\/server\/src\/(?:(?:core|guard|operate)\/store|embedded)\//
  const HTTP = /^packages\/server\/src\/(?:core\/http|observe|operators)\//
  /** Who else than http/ knows Fastify: what builds, opens, starts and logs for the application. */
  const APPLICATION = ['app', 'index', 'server', 'observe/logger', 'operate/cli/supervision'].map(
    (name) => `${SERVER}${name}.ts`,
  )
  /** They hand its instance or its logger on, and need its types alone. */
  const TYPES_ALONE = ['index', 'server', 'observe/logger', 'operate/cli/supervision'].map(
    (name) => `${SERVER}${name}.ts`,
  )

  it('knows Fastify in http/ and where the application is put together', () => {
    const knowing = pathsOf(importersOf(server, 'fastify'))
    expect(knowing.length).toBeGreaterThan(3)
    expect(knowing.filter((path) => !HTTP.test(path) && !APPLICATION.includes(path))).toEqual([])
  })

  it('builds a Fastify application in one file', () => {
    const values = server.filter(({ imports }) =>
      imports.some(({ specifier, typeOnly }) => packageOf(specifier) === 'fastify' && !typeOnly),
    )
    expect(pathsOf(values)).toEqual([`${SERVER}app.ts`])
    expect(TYPES_ALONE.filter((path) => pathsOf(values).includes(path))).toEqual([])
  })

  it('writes SQL in store/ only', () => {
    const writing = server.filter((file) => taggedTemplates(file, 'sql').length > 0)
    expect(writing.length).toBeGreaterThan(3)
    expect(pathsOf(writing).filter((path) => !STORE.test(path))).toEqual([])
    const inTransactions = server.filter((file) => taggedTemplates(file, 'transaction').length > 0)
    expect(pathsOf(inTransactions).filter((path) => !STORE.test(path))).toEqual([])
  })

  it('decides by the connection of its context: on the embedded database `services.sql` would wait for the lock that is held', () => {
    // Called when an export is opened, which is in its release. `decideWithin` only compares connections.
    const AFTERWARDS = [
      'core/api/audit-export.ts: firstPosition',
      'core/api/audit-export.ts: getEntry',
      'core/api/audit-export.ts: getHead',
      'core/api/audit-export.ts: openExport',
      'core/api/audit-export.ts: sealEnd',
      'core/runner/budgets.ts: decideWithin',
    ]
    const deciding = server.flatMap((file) =>
      decisionsByServices(file).map((name) => `${file.path.slice(SERVER.length)}: ${name}`),
    )
    expect(deciding.sort()).toEqual(AFTERWARDS)
  })

  it('runs text as SQL in the migrations and in grants only, which take no parameters', () => {
    const running = server.filter((file) => usesName(file, 'unsafe'))
    expect(pathsOf(running)).toEqual([`${SERVER}core/store/migrations.ts`, `${SERVER}operate/store/grant-serving.ts`])
  })

  it.each(['@eaas/postgres', '@electric-sql/pglite'])('knows %s in store/ only', (name) => {
    const knowing = pathsOf(importersOf(server, name))
    expect(knowing).not.toEqual([])
    expect(knowing.filter((path) => !STORE.test(path))).toEqual([])
  })

  it('loads what verifies exports in operate/ only', () => {
    const loading = server.filter(({ imports }) =>
      imports.some(({ specifier, typeOnly }) => specifier === '@eaas/audit' && !typeOnly),
    )
    expect(loading.length).toBeGreaterThan(3)
    expect(pathsOf(loading).filter((path) => !path.startsWith(`${SERVER}operate/`))).toEqual([])
  })

  it('knows the command line in main.ts and cli/ only', () => {
    const knowing = pathsOf(importersOf(server, 'commander'))
    expect(knowing.filter((path) => path !== `${SERVER}main.ts` && !path.startsWith(`${SERVER}operate/cli/`))).toEqual(
      [],
    )
  })

  it('hands its environment to readConfig, and reads it nowhere else', () => {
    const MAY_HAND_IN = /^packages\/server\/src\/(main|index|core\/config)\.ts$|^packages\/server\/src\/operate\/cli\//
    const reading = server.flatMap((file) => environmentReads(file).map((read) => `${file.path}: ${read}`))
    expect(reading.length).toBeGreaterThan(0)
    const RUNS_PROGRAMS = ['root-keys/program.ts', 'operate/cli/supervision.ts'] // of which the first inherit it
    const others = reading.filter((line) => !RUNS_PROGRAMS.some((path) => line.startsWith(`${SERVER}${path}`)))
    expect(others.filter((line) => !/: (?:readConfig|listSettings)\(process\.env\)$/.test(line))).toEqual([])
    expect(others.filter((line) => !MAY_HAND_IN.test(line.slice(0, line.indexOf(':'))))).toEqual([])
  })
})

/** From the ground, which is the configuration, the places of files and the turns of the event loop, up. What has no folder is the application's. */
const ORDER = [
  'ground',
  'store',
  'crypto',
  'root-key',
  'audit',
  'runner',
  'api',
  'jobs',
  'http',
  'application',
  'cli',
  'main',
] as const
type Part = (typeof ORDER)[number]

/** Parts that know less than their place would let them: these, themselves and the ground. */
const KNOWS: Partial<Record<Part, readonly Part[]>> = {
  store: [],
  audit: ['crypto', 'store'],
  crypto: [],
  'root-key': ['crypto'],
  runner: ['crypto', 'root-key', 'audit', 'store'],
  api: ['crypto', 'root-key', 'audit', 'store', 'runner'],
  jobs: ['crypto', 'audit', 'store', 'runner', 'api'],
  http: ['runner', 'api'],
}

/** They find files beside the build, and so stand one level below the manifest. */
const PLACES = /^(?:version|package-directory)\.ts$/

/** Files of a room that belong to another layer than their folder's name says, or have no folder. */
const LAYERS: readonly (readonly [start: string, part: Part])[] = [
  ['root-keys/', 'root-key'],
  ['embedded/', 'store'],
  ['guard/watch/', 'audit'],
  ['guard/named-entries.ts', 'audit'],
  ['guard/anchor-heads.ts', 'runner'],
  ['guard/installation-log.ts', 'runner'],
  ['observe/', 'http'],
  ['operators/console.ts', 'http'],
  ['operators/', 'api'],
  ['guard/operations/', 'api'],
  ['operate/operations/', 'api'],
]

function partOf(path: string): Part {
  const name = path.slice(SERVER.length)
  if (name === 'main.ts') return 'main'
  if (name === 'observe/logger.ts') return 'application'
  if (PLACES.test(name)) return 'ground'
  const named = LAYERS.find(([start]) => name.startsWith(start))
  if (named) return named[1]
  const [room = '', folder = '', ...rest] = name.split('/')
  if (folder === '') return 'application'
  if (rest.length === 0) {
    if (room === 'core') return 'ground'
  } else {
    const part = ORDER.find((known) => known === folder)
    if (part) return part
  }
  throw new Error(`${path} belongs to no part that has a place in the order`)
}

function mayKnow(from: Part, to: Part): boolean {
  if (from === to) return true
  return KNOWS[from] ? [...KNOWS[from], 'ground'].includes(to) : ORDER.indexOf(to) < ORDER.indexOf(from)
}

describe('the parts of the server', () => {
  const steps = stepsOf(server)
  const name = ({ file, target }: { file: string; target: string }) =>
    `${file.slice(SERVER.length)} ${target.slice(SERVER.length)}`
  // Rows of the log are the chain's own: the store takes their types, and nothing that runs.
  const isTypeOfAudit = ({ file, target, typeOnly }: Step) =>
    typeOnly && partOf(file) === 'store' && partOf(target) === 'audit'
  const upward = steps.filter((step) => !mayKnow(partOf(step.file), partOf(step.target)) && !isTypeOfAudit(step))

  it('of the audit chain know what stands below them: append, watch, verify, formats', () => {
    const rooms = ['formats', 'verify', 'watch', 'append']
    const chain = /^packages\/server\/src\/(?:core\/audit|guard)\/(\w+)\//
    const roomOf = (path: string) => rooms.indexOf(chain.exec(path)?.[1] ?? '')
    const inside = steps.filter(({ file, target }) => chain.test(file) && chain.test(target))
    const between = inside.filter(({ file, target }) => roomOf(file) !== -1 && roomOf(target) !== -1)
    expect(between.length).toBeGreaterThan(20)
    expect(between.filter(({ file, target }) => roomOf(target) > roomOf(file)).map(name)).toEqual([])
  })

  it('know what stands below them: main, cli, app, http and jobs, api, runner, audit, then crypto and store', () => {
    expect(steps.length).toBeGreaterThan(100)
    expect(upward.map(name)).toEqual([])
  })
})

/** The rooms of the server, each with those that it may import. The files beside them put the rooms together, as the commands do. */
const ROOMS: Record<string, readonly string[]> = {
  core: [],
  guard: ['core'],
  embedded: ['core'],
  'root-keys': ['core'],
  observe: ['core'],
  operators: ['core', 'guard'],
}
/** Imports from a room that may not know the other one, until a door takes their place. None is added. */
const WINDOWS = ['core/store/open-store.ts embedded/database.ts']

describe('the rooms of the server', () => {
  const roomOf = (path: string) => path.slice(SERVER.length).split('/')[0] ?? ''
  const between = stepsOf(server).filter(
    ({ file, target }) => roomOf(file) !== roomOf(target) && !PLACES.test(target.slice(SERVER.length)),
  )

  it('know the rooms that they may know, and the others by the windows that are listed', () => {
    const closed = between.filter(({ file, target }) => ROOMS[roomOf(file)]?.includes(roomOf(target)) === false)
    const lines = closed.map(({ file, target }) => `${file.slice(SERVER.length)} ${target.slice(SERVER.length)}`)
    expect([...new Set(lines)].sort()).toEqual(WINDOWS)
  })

  it('each have a README of at most 40 lines', () => {
    for (const room of [...Object.keys(ROOMS), 'operate']) {
      const readme = readFileSync(join(ROOT, SERVER, room, 'README.md'), 'utf8')
      expect(readme.split('\n').length, room).toBeLessThanOrEqual(41)
    }
  })
})

/**
 * The parts of a package in an order: each with the parts that it may import, all of which stand before it. The ground is the
 * files beside the folders, and every part may import it.
 */
type Layers = readonly (readonly [part: string, knows: readonly string[]])[]

/** `index` re-exports for users, and so names nearly every part. */
const SDK_LAYERS: Layers = [
  ['ground', []],
  ['engines', []],
  ['deks', []],
  ['http', []],
  ['records', ['engines', 'deks', 'http']],
  ['resources', ['http', 'records']],
  ['models', ['engines', 'deks', 'records', 'resources']],
  ['parts', ['engines', 'deks', 'http', 'records', 'resources', 'models']],
  ['sealing', ['deks', 'records', 'models', 'parts']],
  ['opening', ['records', 'models', 'parts']],
  ['rare', ['http', 'models', 'parts']],
  ['failures', ['http', 'parts']],
  ['more', ['http', 'records', 'resources', 'models', 'parts', 'rare']],
  [
    'client',
    ['engines', 'http', 'records', 'resources', 'models', 'parts', 'sealing', 'opening', 'rare', 'failures', 'more'],
  ],
  ['index', ['engines', 'http', 'records', 'resources', 'models', 'client']],
  ['maintenance', ['records', 'resources', 'models']],
  ['adapter', ['records', 'models']],
  ['offline', ['engines', 'deks', 'records']],
  ['streams', ['engines', 'deks', 'records', 'resources', 'client']],
  ['sync', ['records', 'resources', 'client']],
  ['broker', ['http']],
  ['testing', ['engines', 'deks', 'resources']],
]

/** `index` is what browsers load: it knows none of what needs Node. `formats.ts` is what the server loads of it. */
const AUDIT_LAYERS: Layers = [
  ['ground', []],
  ['formats', []],
  ['verify', ['formats']],
  ['formats.ts', ['formats', 'verify']],
  ['report', ['formats', 'verify']],
  ['index', ['formats', 'formats.ts', 'verify', 'report']],
  ['node', []],
  ['witness', ['formats', 'node']],
  ['command', ['formats', 'verify', 'report', 'node', 'witness']],
  ['main', ['formats', 'node', 'witness', 'command']],
]

const PROTOCOL_LAYERS: Layers = [
  ['ground', []],
  ['wire', []],
  ['index', ['wire']],
]

/** The part that a file of a package belongs to: its folder, or the part that bears its name. */
function layerOf(path: string, layers: Layers): string {
  const [folder = '', file] = path.split('/').slice(3)
  const name = [folder, folder.replace(/\.ts$/, '')].find((one) => layers.some(([part]) => part === one))
  if (name !== undefined) return name
  if (file !== undefined) throw new Error(`${path} is in a folder that has no place in the order`)
  return 'ground'
}

describe.each([
  ['the package of the audit log', audit, AUDIT_LAYERS],
  ['the SDK', sdk, SDK_LAYERS],
  ['the protocol', protocol, PROTOCOL_LAYERS],
])('the parts of %s', (_, files, layers) => {
  const order = layers.map(([part]) => part)

  it('stand in an order, from the ground up', () => {
    for (const [part, knows] of layers) {
      for (const known of knows) expect(order.indexOf(known), `${part} may import ${known}`).not.toBe(-1)
      for (const known of knows) expect(order.indexOf(known), known).toBeLessThan(order.indexOf(part))
    }
    expect(new Set(files.map(({ path }) => layerOf(path, layers)))).toEqual(new Set(order))
  })

  it('import what they may know, for a type too, and by import() too', () => {
    const known = new Map(layers.map(([part, knows]) => [part, ['ground', part, ...knows]]))
    const upward = stepsOf(files).filter(
      ({ file, target }) => !known.get(layerOf(file, layers))?.includes(layerOf(target, layers)),
    )
    expect(upward.map(({ file, target }) => `${file} imports ${target}`)).toEqual([])
  })
})

describe.each([
  ['the protocol', protocol],
  ['the package of the audit log', audit],
  ['the SDK', sdk],
  ['the adapters', adapters],
  ['the command line', cli],
  ['the conformance kit', conformance],
  ['the server', server],
])('the files of %s', (_, files) => {
  const steps = stepsOf(files)

  it('import files that are there', () => {
    expect(steps.filter(({ target }) => !existsSync(join(ROOT, target)))).toEqual([])
  })

  it('have no circle of files that need each other to run', () => {
    expect(circlesOf(steps)).toEqual([])
  })
})

describe('the reader of these rules', () => {
  const file = parseSource(
    `${SERVER}http/sample.ts`,
    `import a from 'fastify'
     import type { B } from '../audit/chain.js'
     import { type C } from './route.js'
     export * from "./parse.js"
     import {
       d,
     } from 'node:fs'
     type E = import('postgres').Sql
     const f = await import('zod')
     // import g from 'commander'
     const h = "import i from 'zod'"
     const j = [Buffer.from(''), globalThis.Buffer, process.env.HOME, readConfig(process.env)]
     sql\`select 1\`
     services.sql\`select 2\``,
  )

  it('sees every form of an import, and none in comments and strings', () => {
    expect(file.imports.map(({ specifier, typeOnly }) => [specifier, typeOnly])).toEqual([
      ['fastify', false],
      ['../audit/chain.js', true],
      ['./route.js', false],
      ['./parse.js', false],
      ['node:fs', false],
      ['postgres', true],
      ['zod', false],
    ])
    expect(resolveImport(file, '../audit/chain.js')).toBe(`${SERVER}audit/chain.ts`)
  })

  it.each([
    'function f(): Operation<A> { return async ({ services }) => ({ entries: await list(services.sql) }) }',
    'function f(): Operation<A> { return async ({ services: { sql } }) => ({ entries: await list(sql) }) }',
    'function f(): Operation<A> { return async (context) => ({ entries: await list(context.services.sql) }) }',
    'async function f(context: Context) { const { sql } = context.services }',
    'async function f(services: Services): Promise<Decision<A>> { await list(services.sql) }',
    'performAdmitted(services, call, async () => list(services.sql))',
  ])('sees a decision by services.sql: %s', (text) => {
    expect(decisionsByServices(parseSource('a.ts', text))).toHaveLength(1)
  })

  it.each([
    'function f(): Operation<A> { return async ({ services, sql }) => ({ entries: await list(sql), release: () => list(services.sql) }) }',
    'function f(): Operation<A> { return async ({ services }) => ({ async release() { await list(services.sql) } }) }',
    'async function f(services: Services) { await list(services.sql) }',
  ])('sees none: %s', (text) => {
    expect(decisionsByServices(parseSource('a.ts', text))).toEqual([])
  })

  it('sees a circle, one by import() too, and none of types', () => {
    const circle = (back: string) =>
      circlesOf(
        stepsOf([
          parseSource('a.ts', "import { b } from './b.js'"),
          parseSource('b.ts', `${back}; export const b = 1`),
        ]),
      )
    expect(circle("import { a } from './a.js'")).toEqual(['a.ts -> b.ts -> a.ts'])
    expect(circle("void import('./a.js')")).toEqual(['a.ts -> b.ts -> a.ts'])
    expect(circle("import type { A } from './a.js'")).toEqual([])
  })

  it('sees names, SQL and the environment', () => {
    expect(usesGlobal(file, 'Buffer')).toBe(true)
    expect(usesGlobal(parseSource('a.ts', 'globalThis.Buffer'), 'Buffer')).toBe(false)
    expect(taggedTemplates(file, 'sql')).toHaveLength(2)
    expect(environmentReads(file)).toEqual(['process.env.HOME', 'readConfig(process.env)'])
    for (const text of ['const { env } = process', 'process["env"].A']) {
      expect(environmentReads(parseSource('a.ts', text)), text).not.toEqual([])
    }
  })
})
