// The API reference: what an entry of a package exports, with its types as they are written and its docstrings, as Markdown.
import { join } from 'node:path'
import ts from 'typescript'
import { DocsError } from './docs-error.mjs'

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
/** Types that a public signature names and nobody needs to import, by why not. */
const NOT_EXPORTED = new Map([
  ['ColumnOf', 'TypeScript infers it from the options, and applications name `Field`'],
  ['Environment', 'it is the type of `process.env`'],
])
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
  // An entry that another one imports is read as its source too, so that the links between them are found.
  const paths = Object.fromEntries(entries.map(({ name, source }) => [name, [join(root, source)]]))
  const options = { ...ts.parseJsonConfigFileContent(config, ts.sys, root).options, types: [], paths }
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
  const read = entries.map((entry) => readEntry(program, checker, join(root, entry.source), entry))
  assertNamesExported(checker, root, read)
  return new Map(
    read.map((entry) => {
      /** @type {Links} */
      const links = new Map()
      // The entries of the same page come last, so that they replace those of other pages.
      for (const other of [...read.filter((one) => one !== entry).reverse(), entry])
        for (const { name, target } of other.exported)
          links.set(target, `${other === entry ? '' : apiPage(other.name)}#${name.toLowerCase()}`)
      return [entry.name, describeEntry({ checker, links }, entry)]
    }),
  )
}

/** The file of an entry's page. @param {string} name of an entry, such as `@eaas/sdk/broker` */
export function apiPage(name) {
  return `${name.replace('@eaas/', '').replace('/', '-')}.html`
}

/** @typedef {Map<ts.Symbol, string>} Links where each exported name is described */
/** @typedef {{ checker: ts.TypeChecker, links: Links }} Context */
/** @typedef {ReturnType<typeof readEntry>} ReadEntry */

/**
 * @param {ts.Program} program
 * @param {ts.TypeChecker} checker
 * @param {string} path
 * @param {Entry} entry
 */
function readEntry(program, checker, path, entry) {
  const source = program.getSourceFile(path)
  const module = source && checker.getSymbolAtLocation(source)
  if (!source || !module) throw new DocsError(`${path} exports nothing`)
  const exported = checker.getExportsOfModule(module).map((symbol) => {
    const target = targetOf(checker, symbol)
    const [declaration] = target.declarations ?? []
    if (!declaration) throw new DocsError(`${path}: ${symbol.name} has no declaration`)
    return { name: symbol.name, target, kind: kindOf(declaration), declarations: target.declarations ?? [] }
  })
  return { ...entry, file: source, exported }
}

/** @param {ts.TypeChecker} checker @param {ts.Symbol} symbol */
function targetOf(checker, symbol) {
  return symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol
}

/**
 * Refuses a type of ours in the signature of a public function or method that no entry of its package exports: an application
 * could not name it.
 *
 * @param {ts.TypeChecker} checker
 * @param {string} root
 * @param {ReadEntry[]} entries
 */
function assertNamesExported(checker, root, entries) {
  const packageOf = (/** @type {string} */ name) => name.split('/').slice(0, 2).join('/')
  /** @type {string[]} */
  const missing = []
  for (const { name: entry, source, exported } of entries) {
    const siblings = entries.filter(({ name }) => packageOf(name) === packageOf(entry))
    const known = new Set(siblings.flatMap((one) => one.exported.map(({ target }) => target)))
    for (const { name, declarations } of exported) {
      for (const { label, node } of declarations.flatMap((declaration) => signaturesOf(name, declaration))) {
        for (const type of namedTypes(node)) {
          const symbol = checker.getSymbolAtLocation(type)
          const target = symbol && targetOf(checker, symbol)
          const text = type.getText()
          if (!target || known.has(target) || NOT_EXPORTED.has(text) || !isOurs(root, target)) continue
          missing.push(
            `${label} names the type ${text}, which ${packageOf(entry)} does not export: export it from ${source}`,
          )
        }
      }
    }
  }
  if (missing.length > 0) throw new DocsError([...new Set(missing)].join('\n'))
}

/**
 * The public functions and methods that a declaration has.
 *
 * @param {string} name
 * @param {ts.Declaration} node
 * @returns {{ label: string, node: ts.Node }[]}
 */
function signaturesOf(name, node) {
  if (ts.isFunctionDeclaration(node)) return [{ label: name, node }]
  if (!ts.isInterfaceDeclaration(node) && !ts.isClassDeclaration(node)) return []
  const methods = [...node.members].filter((member) => isPublic(member) && isCallable(member))
  return methods.map((method) => ({ label: `${name}.${method.name?.getText()}`, node: method }))
}

/** @param {ts.TypeElement | ts.ClassElement} member */
function isCallable(member) {
  if (ts.isMethodSignature(member) || ts.isMethodDeclaration(member)) return true
  return ts.isPropertySignature(member) && member.type !== undefined && ts.isFunctionTypeNode(member.type)
}

/** The names of types in a signature. @param {ts.Node} node @returns {ts.EntityName[]} */
function namedTypes(node) {
  if (ts.isBlock(node)) return []
  /** @type {ts.EntityName[]} */
  const names = ts.isTypeReferenceNode(node) ? [node.typeName] : []
  ts.forEachChild(node, (child) => {
    names.push(...namedTypes(child))
  })
  return names
}

/** Whether a type is declared in the project, and is no parameter. @param {string} root @param {ts.Symbol} symbol */
function isOurs(root, symbol) {
  const file = symbol.declarations?.[0]?.getSourceFile().fileName ?? ''
  const isParameter = (symbol.flags & ts.SymbolFlags.TypeParameter) !== 0
  return !isParameter && file.startsWith(root.replace(/\/?$/, '/')) && !file.includes('/node_modules/')
}

/** @param {Context} context @param {ReadEntry} entry */
function describeEntry(context, { name, file: source, exported }) {
  const sections = KINDS.flatMap((kind) => {
    const some = exported.filter((one) => one.kind === kind).sort((a, b) => a.name.localeCompare(b.name))
    if (some.length === 0) return []
    return [`## ${TITLES[kind]}`, ...some.map((one) => describe(context, one))]
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
 * @param {Context} context
 * @param {{ name: string, declarations: ts.Declaration[] }} exported
 */
function describe(context, { name, declarations }) {
  const parts = declarations.flatMap((node) => {
    if (ts.isInterfaceDeclaration(node) || ts.isClassDeclaration(node)) return describeMembers(context, name, node)
    return [
      signature(declarationText(context.checker, node), linksIn(context, node)),
      docOf(ts.isVariableDeclaration(node) ? node.parent.parent : node),
    ]
  })
  return [`### ${name}`, ...parts].join('\n\n')
}

/** @param {Context} context @param {string} name @param {ts.InterfaceDeclaration | ts.ClassDeclaration} node */
function describeMembers(context, name, node) {
  const file = node.getSourceFile()
  const brace = file.text.indexOf('{', (node.heritageClauses ?? node.typeParameters ?? node.name)?.end ?? node.pos)
  const head = withoutExport(file.text.slice(node.getStart(), brace).trim())
  const titled = new Set()
  const members = membersOf(context, node).map((member) => {
    const { text: source } = member.getSourceFile()
    const title = `${name}.${member.name?.getText()}`
    const isFirst = isCallable(member) && !titled.has(title)
    titled.add(title)
    const body = ts.isMethodDeclaration(member) || ts.isConstructorDeclaration(member) ? member.body : undefined
    const text = source.slice(member.getStart(), body?.getStart() ?? member.end)
    return [
      ...(isFirst ? [`#### ${title}`] : []),
      signature(
        dedent(text)
          .replace(/[;,]?\s*$/, '')
          .replace(/^(override )?(readonly )?/, '$2'),
        linksIn(context, member),
      ),
      docOf(member),
    ].join('\n\n')
  })
  return [
    signature(head, linksIn(context, node)),
    docOf(node),
    ...(members.length > 0 ? ['<div class="members">', ...members, '</div>'] : []),
  ]
}

/**
 * The public members of a declaration, and those that it has of an interface without an entry of its own.
 *
 * @param {Context} context
 * @param {ts.InterfaceDeclaration | ts.ClassDeclaration} node
 * @returns {(ts.TypeElement | ts.ClassElement)[]}
 */
function membersOf(context, node) {
  const own = [...node.members].filter(isPublic)
  const names = new Set(own.map((member) => member.name?.getText()))
  const bases = (node.heritageClauses ?? []).flatMap(({ types }) => types.map(({ expression }) => expression))
  const inherited = bases.flatMap((base) => {
    const symbol = context.checker.getSymbolAtLocation(base)
    const target = symbol && targetOf(context.checker, symbol)
    if (!target || context.links.has(target)) return []
    const declarations = (target.declarations ?? []).filter(
      (each) => ts.isInterfaceDeclaration(each) && !each.getSourceFile().isDeclarationFile,
    )
    return declarations.flatMap((declaration) => membersOf(context, declaration))
  })
  return [...own, ...inherited.filter((member) => !names.has(member.name?.getText()))]
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
    .map(({ comment }) => `<p class="example">Example</p>\n\n${textOf(comment)}`)
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

/** Where the types that a declaration names are described, by name. @param {Context} context @param {ts.Node} node */
function linksIn({ checker, links }, node) {
  /** @type {Map<string, string>} */
  const found = new Map()
  const visit = (/** @type {ts.Node} */ child) => {
    if (ts.isBlock(child)) return
    const symbol = ts.isIdentifier(child) && isTypeName(child) ? checker.getSymbolAtLocation(child) : undefined
    const link = symbol && links.get(targetOf(checker, symbol))
    if (link !== undefined) found.set(child.getText(), link)
    ts.forEachChild(child, visit)
  }
  ts.forEachChild(node, visit)
  return found
}

/** @param {ts.Identifier} node */
function isTypeName({ parent }) {
  return ts.isTypeReferenceNode(parent) || ts.isExpressionWithTypeArguments(parent)
}

/**
 * A signature as HTML, which Markdown leaves as it is. Comments and texts in quotes have no links, nor have names of members.
 *
 * @param {string} text
 * @param {Map<string, string>} links
 */
function signature(text, links) {
  const linked = text.replaceAll(/\/\*.*?\*\/|\/\/[^\n]*|'[^'\n]*'|[\w$]+(?![\w$]|\??:)|[&<>]/gs, (part) => {
    const link = links.get(part)
    return link === undefined ? escapeHtml(part) : `<a href="${link}">${part}</a>`
  })
  return `<pre class="signature"><code>${linked}</code></pre>`
}

/** @param {string} text */
export function escapeHtml(text) {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}
