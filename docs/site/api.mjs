// The API reference: what an entry of a package exports, with its types as they are written and its docstrings, as Markdown.
import { join } from 'node:path'
import ts from 'typescript'

/** @typedef {import('./pages.mjs').Entry} Entry */

const KINDS = /** @type {const} */ (['function', 'class', 'const', 'interface', 'type'])
const TITLES = {
  function: 'Functions',
  class: 'Errors and classes',
  const: 'Constants',
  interface: 'Interfaces',
  type: 'Types',
}
const EXPANDED =
  ts.NodeBuilderFlags.NoTruncation | ts.NodeBuilderFlags.InTypeAlias | ts.NodeBuilderFlags.MultilineObjectLiterals
/** What is read besides our files. The types of other packages are shown as they are written, and reading them would take half of the time. */
const READ = /^(zod$|@eaas\/|\.)/

/**
 * Reads the sources once for all entries.
 *
 * @param {string} root the folder of the project
 * @param {readonly Entry[]} entries
 * @returns {Map<string, { markdown: string, names: string[] }>} by the name of the entry
 */
export function describeApi(root, entries) {
  const { config } = ts.readConfigFile(join(root, 'tsconfig.json'), ts.sys.readFile)
  const options = { ...ts.parseJsonConfigFileContent(config, ts.sys, root).options, types: [] }
  const host = ts.createCompilerHost(options)
  host.resolveModuleNameLiterals = (literals, file, redirected, options, source) =>
    literals.map((literal) => {
      if (!READ.test(literal.text)) return { resolvedModule: undefined }
      const mode = ts.getModeForUsageLocation(source, literal, options)
      return ts.resolveModuleName(literal.text, file, options, host, undefined, redirected, mode)
    })
  const program = ts.createProgram(
    entries.map(({ source }) => join(root, source)),
    options,
    host,
  )
  const checker = program.getTypeChecker()
  return new Map(entries.map((entry) => [entry.name, describeEntry(program, checker, join(root, entry.source), entry)]))
}

/**
 * @param {ts.Program} program
 * @param {ts.TypeChecker} checker
 * @param {string} path
 * @param {Entry} entry
 */
function describeEntry(program, checker, path, { name }) {
  const source = program.getSourceFile(path)
  const module = source && checker.getSymbolAtLocation(source)
  if (!source || !module) throw new Error(`${path} exports nothing`)
  const exported = checker.getExportsOfModule(module).map((symbol) => {
    const target = symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol
    const [declaration] = target.declarations ?? []
    if (!declaration) throw new Error(`${path}: ${symbol.name} has no declaration`)
    return { name: symbol.name, kind: kindOf(declaration), declarations: target.declarations ?? [] }
  })
  const sections = KINDS.flatMap((kind) => {
    const some = exported.filter((one) => one.kind === kind).sort((a, b) => a.name.localeCompare(b.name))
    if (some.length === 0) return []
    return [`## ${TITLES[kind]}`, ...some.map((one) => describe(checker, one))]
  })
  const intro = ts.getJSDocCommentsAndTags(source.statements[0] ?? source).find(ts.isJSDoc)
  const about = (intro && source.text.indexOf('/**') === 0 ? textOf(intro.comment) : '').replace(/^`@eaas[^`]*`: /, '')
  const lead = about === '' ? '' : `${about[0]?.toUpperCase()}${about.slice(1)}`
  return { markdown: [`# ${name}`, lead, ...sections].join('\n\n'), names: exported.map((one) => one.name) }
}

/** @param {ts.Declaration} node @returns {(typeof KINDS)[number]} */
function kindOf(node) {
  if (ts.isFunctionDeclaration(node)) return 'function'
  if (ts.isClassDeclaration(node)) return 'class'
  if (ts.isInterfaceDeclaration(node)) return 'interface'
  return ts.isTypeAliasDeclaration(node) ? 'type' : 'const'
}

/**
 * @param {ts.TypeChecker} checker
 * @param {{ name: string, declarations: ts.Declaration[] }} exported
 */
function describe(checker, { name, declarations }) {
  const parts = declarations.flatMap((node) => {
    if (ts.isInterfaceDeclaration(node) || ts.isClassDeclaration(node)) return describeMembers(node)
    return [code(declarationText(checker, node)), docOf(ts.isVariableDeclaration(node) ? node.parent.parent : node)]
  })
  return [`### ${name}`, ...parts].join('\n\n')
}

/** @param {ts.InterfaceDeclaration | ts.ClassDeclaration} node */
function describeMembers(node) {
  const file = node.getSourceFile()
  const brace = file.text.indexOf('{', (node.heritageClauses ?? node.typeParameters ?? node.name)?.end ?? node.pos)
  const head = withoutExport(file.text.slice(node.getStart(), brace).trim())
  const members = [...node.members].filter(isPublic).map((member) => {
    const body = ts.isMethodDeclaration(member) || ts.isConstructorDeclaration(member) ? member.body : undefined
    const text = file.text.slice(member.getStart(), body?.getStart() ?? member.end)
    return [
      code(
        dedent(text)
          .replace(/[;,]?\s*$/, '')
          .replace(/^(override )?(readonly )?/, '$2'),
      ),
      docOf(member),
    ].join('\n\n')
  })
  return [code(head), docOf(node), ...(members.length > 0 ? ['<div class="members">', ...members, '</div>'] : [])]
}

/** @param {ts.TypeElement | ts.ClassElement} member */
function isPublic(member) {
  const isHidden = ts.getCombinedModifierFlags(member) & (ts.ModifierFlags.Private | ts.ModifierFlags.Protected)
  const isInternal = ts.getJSDocTags(member).some(({ tagName }) => tagName.text === 'internal')
  const name = member.name?.getText() ?? ''
  return !isHidden && !isInternal && !name.startsWith('#') && !name.startsWith("'~")
}

/** @param {ts.TypeChecker} checker @param {ts.Declaration} node */
function declarationText(checker, node) {
  const file = node.getSourceFile()
  if (ts.isFunctionDeclaration(node)) {
    return withoutExport(file.text.slice(node.getStart(), node.body?.getStart() ?? node.end).trim())
  }
  if (ts.isTypeAliasDeclaration(node)) {
    const text = withoutExport(file.text.slice(node.getStart(), node.end))
    // What the wire's schemas infer says nothing to a reader: the shape does.
    if (!/\bwire\.|\bz\.|typeof/.test(text)) return text
    const shape = checker.typeToTypeNode(checker.getTypeAtLocation(node), node, EXPANDED)
    const printed = shape ? ts.createPrinter().printNode(ts.EmitHint.Unspecified, shape, file) : node.type.getText()
    return `type ${node.name.text} = ${printed.replaceAll(/^ +/gm, (indent) => ' '.repeat(indent.length / 2)).replaceAll(/;$/gm, '')}`
  }
  const type = checker.typeToString(checker.getTypeAtLocation(node), node, ts.TypeFormatFlags.NoTruncation)
  return `const ${/** @type {ts.VariableDeclaration} */ (node).name.getText()}: ${type}`
}

/** @param {ts.Node} node */
function docOf(node) {
  const doc = ts.getJSDocCommentsAndTags(node).filter(ts.isJSDoc).at(-1)
  if (!doc) return ''
  const tags = (doc.tags ?? []).flatMap((tag) => {
    const text = textOf(tag.comment).trim()
    const name = tag.tagName.text
    if (name === 'param')
      return [`- \`${/** @type {ts.JSDocParameterTag} */ (tag).name.getText()}\`: ${text.replace(/^- /, '')}`]
    if (name === 'throws') return [`- Throws ${text}`]
    if (name === 'returns') return [`- Returns ${text}`]
    return []
  })
  const examples = (doc.tags ?? [])
    .filter(({ tagName }) => tagName.text === 'example')
    .map(({ comment }) => textOf(comment))
  return [textOf(doc.comment), tags.join('\n'), ...examples].filter((text) => text !== '').join('\n\n')
}

/** @param {string | ts.NodeArray<ts.JSDocComment> | undefined} comment */
function textOf(comment) {
  return ts.getTextOfJSDocComment(comment) ?? ''
}

/** @param {string} text */
function withoutExport(text) {
  return text.replace(/^export (?:declare )?/, '')
}

/** Removes the indentation of a member from its lines. @param {string} text */
function dedent(text) {
  return text.replaceAll(/^ {2}/gm, '')
}

/** @param {string} text */
function code(text) {
  return `\`\`\`ts\n${text}\n\`\`\``
}
