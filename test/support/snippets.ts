// The TypeScript in Markdown: a page's blocks marked ts form one program, which is compiled as strictly as our own code, and run.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

const root = fileURLToPath(new URL('../..', import.meta.url))
/** The pages whose snippets must hold. */
export const PAGES = [
  'README.md',
  'packages/sdk/README.md',
  ...readdirSync(join(root, 'packages/sdk/docs'))
    .filter((name) => name.endsWith('.md'))
    .map((name) => `packages/sdk/docs/${name}`),
]

/** The folder of Prisma's client, as `prisma generate` makes it. */
export const PRISMA = join(root, 'test/orm/prisma')

const BLOCK = /^```ts\n(?<code>.*?)^```$/gms
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

/** Adds what a line imports, once: several programs of a page import the same. */
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
export function compilePrograms(programs: ReadonlyMap<string, string>, globals: string, names: readonly string[]) {
  const configured = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile)
  const { options: own } = ts.parseJsonConfigFileContent(configured.config, ts.sys, root)
  const sdk = (name: string) => [join(root, `packages/sdk/src/${name}.ts`)]
  const paths = { '@eaas/sdk': sdk('index'), '@eaas/sdk/*': sdk('*') }
  // The page of Prisma imports what `prisma generate` makes beside it.
  const rootDirs = [join(root, 'packages/sdk/docs'), PRISMA]
  // A page may declare values that it never uses.
  const options = { ...own, paths, rootDirs, noUnusedLocals: false, noUnusedParameters: false }
  const declared = names.map((name) => `const ${name}: Prelude[${JSON.stringify(name)}]`).join('\n')
  const declarations = `import type { Prelude } from '${globals}'\ndeclare global {\n${declared}\n}\n`
  const pathOf = (page: string) => join(root, `${page}.ts`)
  const files = new Map([
    [pathOf('prelude-globals'), declarations],
    ...[...programs].map(([page, program]) => [pathOf(page), program] as const),
  ])
  const host = ts.createCompilerHost(options)
  const { fileExists, readFile, getSourceFile } = host
  host.fileExists = (path) => files.has(path) || fileExists(path)
  host.readFile = (path) => files.get(path) ?? readFile(path)
  host.getSourceFile = (path, languageVersion, ...rest) => {
    const code = files.get(path)
    return code === undefined
      ? getSourceFile(path, languageVersion, ...rest)
      : ts.createSourceFile(path, code, languageVersion)
  }
  const program = ts.createProgram([...files.keys()], options, host)
  const errorsOf = (page: string) => {
    const source = program.getSourceFile(pathOf(page))
    return ts.getPreEmitDiagnostics(program, source).map(({ messageText, start = 0 }) => {
      const line = (source?.getLineAndCharacterOfPosition(start).line ?? 0) + 1
      return `${page}:${line}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`
    })
  }
  return new Map([...programs.keys()].map((page) => [page, errorsOf(page)]))
}

/** Reads a file of the project. */
export function readPage(page: string): string {
  return readFileSync(join(root, page), 'utf8')
}

function linesOf(text: string): string {
  return text.replaceAll(/[^\n]/g, '')
}
