// The TypeScript in Markdown: a page's blocks marked ts form one program, which is compiled as strictly as our own code, and run.
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findTypeErrors } from './native-compiler.js'

const root = fileURLToPath(new URL('../../..', import.meta.url))
/** The packages for ORMs. */
const ADAPTERS = ['drizzle', 'kysely', 'prisma', 'typeorm']
/** The pages whose snippets must hold. */
export const PAGES = [
  'README.md',
  ...['packages/sdk', 'packages/cli'].flatMap((home) => [
    `${home}/README.md`,
    ...readdirSync(join(root, home, 'docs'))
      .filter((name) => name.endsWith('.md'))
      .map((name) => `${home}/docs/${name}`),
  ]),
  ...ADAPTERS.map((name) => `packages/${name}/README.md`),
  ...readdirSync(join(root, 'docs/coming-from')).map((name) => `docs/coming-from/${name}`),
]

/** The folder of the programs that pages of ORMs without an adapter import. */
export const WITHOUT_ADAPTER = join(root, 'examples/without-adapter')
/** The folder of Prisma's client, as `prisma generate` makes it. */
export const PRISMA = join(root, 'test/orm/prisma')

/** Pages that need a database of their own: test/orm/without-adapter.db.test.ts and test/slow/mongoose.test.ts run them. */
export const ON_DATABASES = PAGES.filter((page) => /\/(knex|mongoose|sequelize)\.md$/.test(page))
/**
 * A block that begins by naming a file, `// src/main.ts`, belongs to an application that test/slow/page-apps.test.ts
 * builds and runs.
 */
const BLOCK = /^```ts\n(?!\/\/ [^ \n]+\.ts\n)(?<code>.*?)^```$/gms
const IMPORT = /^import [^\n]+$/gm
/** A printed value that the page promises: `console.log(…) // → 1`. */
const PROMISE = /^(?<indent> *)console\.log\((?<printed>.*)\) \/\/ → (?<text>.*)$/gm

/**
 * Makes a program from a page. Each block is in the scope of those before it, and may redeclare their names. Line numbers stay
 * the same, so that errors of TypeScript and stack traces point into the page.
 */
export function programOf(markdown: string): string {
  let program = ''
  let end = 0
  const imports = new Map<string, Set<string>>()
  const blocks = [...markdown.matchAll(BLOCK)]
  for (const { 0: block, 1: code = '', index } of blocks) {
    const body = code
      .replaceAll(IMPORT, (line) => {
        addImport(imports, line)
        return ''
      })
      .replaceAll(PROMISE, (_, indent, printed, text) => `${indent}promised(${JSON.stringify(text)}, ${printed})`)
    program += `${linesOf(markdown.slice(end, index))}{\n${body}`
    end = index + block.length
  }
  const lines = [...imports].map(([from, names]) => from.replace('{}', `{ ${[...names].join(', ')} }`))
  return blocks.length === 0 ? '' : `${lines.join('; ')}; export {};${program}${'}'.repeat(blocks.length)}\n`
}

/** Adds what a line imports only once, since several programs of a page import the same. */
function addImport(imports: Map<string, Set<string>>, line: string): void {
  const from = line.replace(/\{.*\}/, '{}')
  const names = imports.get(from) ?? new Set()
  for (const name of /\{ (.*) \}/.exec(line)?.[1]?.split(', ') ?? []) names.add(name)
  imports.set(from, names)
}

/**
 * Compiles the programs of all pages at once, against the SDK's sources; returns TypeScript's errors as `page:line: message`.
 *
 * @param globals a file with a type `Prelude`: the values that programs may use without declaring them
 */
export async function compilePrograms(
  programs: ReadonlyMap<string, string>,
  globals: string,
  names: readonly string[],
) {
  const folder = mkdtempSync(join(tmpdir(), 'eaas-snippets-'))
  const write = (page: string, code: string) => {
    const path = join(folder, `${page}.ts`)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, code)
    return path
  }
  const declared = names.map((name) => `const ${name}: Prelude[${JSON.stringify(name)}]`).join('\n')
  const declarations = `import type { Prelude } from '${globals}'\ndeclare global {\n${declared}\n}\n`
  const files = [write('prelude-globals', declarations), ...[...programs].map(([page, code]) => write(page, code))]
  // What a page imports in addition to the SDK.
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'), 'junction')
  const sdk = (name: string) => [join(root, `packages/sdk/src/${name}.ts`)]
  const adapters = ADAPTERS.map((name) => [`@eaas/${name}`, [join(root, `packages/${name}/src/index.ts`)]])
  const compilerOptions = {
    paths: {
      '@eaas/sdk': sdk('index'),
      '@eaas/sdk/*': sdk('*'),
      '@eaas/cli/backfill': [join(root, 'packages/cli/src/backfill.ts')],
      ...Object.fromEntries(adapters),
    },
    // Some pages import what `prisma generate` makes next to them, or what is copied there.
    rootDirs: [
      join(folder, 'packages/sdk/docs'),
      join(folder, 'packages/cli/docs'),
      join(folder, 'packages/prisma'),
      join(folder, 'docs/coming-from'),
      PRISMA,
      WITHOUT_ADAPTER,
    ],
    // A page may declare values that it never uses.
    noUnusedLocals: false,
    noUnusedParameters: false,
  }
  try {
    const extended = join(root, 'tsconfig.json')
    return errorsByPage(await findTypeErrors({ files, extended, compilerOptions, below: folder }), [...programs.keys()])
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Groups the compiler's lines by page. @throws if an error is in another file */
function errorsByPage(lines: readonly string[], pages: readonly string[]): Map<string, string[]> {
  const errors = new Map<string, string[]>(pages.map((page) => [page, []]))
  let ofPage: string[] | undefined
  for (const line of lines) {
    const [, page = '', at, message] = /^(.+)\.ts\((\d+),\d+\): error TS\d+: (.+)$/.exec(line) ?? []
    if (page !== '') ofPage = errors.get(page)
    // The lines below an error are indented.
    if (!ofPage || (page === '' && !line.startsWith(' '))) throw new Error(`not an error of a page: ${line}`)
    if (page === '') ofPage.push(`${ofPage.pop()}\n${line}`)
    else ofPage.push(`${page}:${at}: ${message}`)
  }
  return errors
}

/** Reads a file of the project. */
export function readPage(page: string): string {
  return readFileSync(join(root, page), 'utf8')
}

function linesOf(text: string): string {
  return text.replaceAll(/[^\n]/g, '')
}
