// Source files as the compiler reads them: their imports and the names that they use, ignoring comments and strings.
import { readdirSync, readFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

export const ROOT = fileURLToPath(new URL('../../../', import.meta.url))

export interface Import {
  /** as it is written */
  specifier: string
  /** absent from the code once types are stripped */
  typeOnly: boolean
  /** `import(…)` within code */
  dynamic: boolean
}

export interface SourceFile {
  /** from the root of the project, with slashes */
  path: string
  imports: Import[]
  /** the names in its code, of variables, types and members */
  names: ReadonlySet<string>
  tree: ts.SourceFile
}

/** Lists all files below a folder, as paths from the root of the project, except installed and built ones. */
export function filesBelow(folder: string): string[] {
  return readdirSync(join(ROOT, folder), { withFileTypes: true }).flatMap((entry) => {
    const path = `${folder}/${entry.name}`
    if (entry.isDirectory()) return /^(node_modules|dist|\..*)$/.test(entry.name) ? [] : filesBelow(path)
    return [path]
  })
}

const readBefore = new Map<string, SourceFile[]>()

/** Reads the sources below a folder, except tests and files that only tests use. A worker reads them once. */
export function sourcesBelow(folder: string): readonly SourceFile[] {
  const sources = readBefore.get(folder) ?? readSources(folder)
  readBefore.set(folder, sources)
  return sources
}

function readSources(folder: string): SourceFile[] {
  return filesBelow(folder)
    .filter((path) => /\.ts$/.test(path) && !/\.test\.ts$|\/test-support\//.test(path) && !isTestProgram(path))
    .map((path) => parseSource(path, readFileSync(join(ROOT, path), 'utf8')))
}

// Programs that tests start as processes of their own, such as child-of-test.ts.
function isTestProgram(path: string): boolean {
  return /-of-test\.ts$/.test(path)
}

/** Reads one source. */
export function parseSource(path: string, text: string): SourceFile {
  const tree = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true)
  const imports: Import[] = []
  const names = new Set<string>()
  visit(tree, (node) => {
    if (ts.isIdentifier(node)) names.add(node.text)
    if ((ts.isImportDeclaration(node) || ts.isExportDeclaration(node)) && node.moduleSpecifier) {
      const typeOnly = ts.isImportDeclaration(node) ? node.importClause?.isTypeOnly === true : node.isTypeOnly
      imports.push({ specifier: textOf(node.moduleSpecifier), typeOnly, dynamic: false })
    }
    if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument)) {
      imports.push({ specifier: textOf(node.argument.literal), typeOnly: true, dynamic: false })
    }
    if (ts.isCallExpression(node) && isImporter(node.expression) && node.arguments[0]) {
      imports.push({ specifier: textOf(node.arguments[0]), typeOnly: false, dynamic: true })
    }
  })
  return { path, imports, names, tree }
}

function isImporter(callee: ts.Expression): boolean {
  return callee.kind === ts.SyntaxKind.ImportKeyword || (ts.isIdentifier(callee) && callee.text === 'require')
}

function textOf(node: ts.Node): string {
  return ts.isStringLiteralLike(node) ? node.text : `(${node.getText()})`
}

/** Calls `found` for a node and all its descendants. */
function visit(node: ts.Node, found: (node: ts.Node) => void): void {
  found(node)
  ts.forEachChild(node, (child) => visit(child, found))
}

/** Whether a file uses a name, as a variable, a type or a member. */
export function usesName({ names }: SourceFile, name: string): boolean {
  return names.has(name)
}

/** Whether a file uses a name on its own, neither as a member of an object nor as a member's name. */
export function usesGlobal({ tree, names }: SourceFile, name: string): boolean {
  let uses = false
  if (!names.has(name)) return uses
  visit(tree, (node) => {
    if (!ts.isIdentifier(node) || node.text !== name) return
    const { parent } = node
    const isMember =
      (ts.isPropertyAccessExpression(parent) || ts.isPropertySignature(parent) || ts.isPropertyAssignment(parent)) &&
      parent.name === node
    uses ||= !isMember
  })
  return uses
}

/** Lists the templates of a file that have this tag. */
export function taggedTemplates({ tree }: SourceFile, tag: string): string[] {
  const templates: string[] = []
  visit(tree, (node) => {
    if (ts.isTaggedTemplateExpression(node) && lastName(node.tag) === tag) templates.push(node.getText())
  })
  return templates
}

function lastName(node: ts.Expression): string {
  return ts.isPropertyAccessExpression(node) ? node.name.text : node.getText()
}

/** Lists where a file uses `env`: the call that takes `process.env`, as in `readConfig(process.env)`, or the expression around it. */
export function environmentReads({ tree }: SourceFile): string[] {
  const reads: string[] = []
  visit(tree, (node) => {
    if (!(ts.isIdentifier(node) || ts.isStringLiteralLike(node)) || node.text !== 'env') return
    const { parent } = node
    const isHandedOn = parent.getText() === 'process.env' && ts.isCallExpression(parent.parent)
    reads.push(isHandedOn || ts.isPropertyAccessExpression(parent.parent) ? parent.parent.getText() : parent.getText())
  })
  return reads
}

/** Resolves a relative import to a path from the root of the project; undefined for packages. */
export function resolveImport({ path }: SourceFile, specifier: string): string | undefined {
  if (!specifier.startsWith('.')) return undefined
  const target = relative(ROOT, join(ROOT, path, '..', specifier))
  return target.replaceAll('\\', '/').replace(/\.js$/, '.ts')
}

/**
 * Lists the deciding functions of a file that read by `services.sql`. Deciding functions are operations, the functions passed to
 * `perform`, and those that take their context. Code in `release` does not count, because it runs after the decision.
 */
export function decisionsByServices({ tree }: SourceFile): string[] {
  const found = new Set<string>()
  visit(tree, (node) => {
    if (!isSqlOfServices(node)) return
    for (let at = node.parent; at && !isRelease(at); at = at.parent) {
      if (isDeciding(at)) found.add(nameOf(at))
    }
  })
  return [...found]
}

function isSqlOfServices(node: ts.Node): boolean {
  if (ts.isPropertyAccessExpression(node)) return node.name.text === 'sql' && lastName(node.expression) === 'services'
  if (!ts.isBindingElement(node) || (node.propertyName ?? node.name).getText() !== 'sql') return false
  const from = node.parent.parent
  if (ts.isBindingElement(from)) return (from.propertyName ?? from.name).getText() === 'services'
  return ts.isVariableDeclaration(from) && from.initializer !== undefined && lastName(from.initializer) === 'services'
}

function isRelease(node: ts.Node): boolean {
  return (ts.isMethodDeclaration(node) || ts.isPropertyAssignment(node)) && node.name.getText() === 'release'
}

function isDeciding(node: ts.Node): boolean {
  if (!ts.isFunctionLike(node)) return false
  const types = [node.type, ...node.parameters.map(({ type }) => type)].map((type) => type?.getText() ?? '')
  if (types.some((type) => /^(Promise<)?(Operation|Decision)<|^Context$/.test(type))) return true
  return ts.isCallExpression(node.parent) && /^perform(Admitted|AsSystem)$/.test(node.parent.expression.getText())
}

function nameOf(node: ts.Node): string {
  return ts.isFunctionDeclaration(node) && node.name ? node.name.text : 'a function without a name'
}
