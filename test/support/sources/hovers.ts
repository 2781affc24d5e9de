// What an editor shows of a program: the printed type of a name, and the description of an option.
import { dirname } from 'node:path'
import ts from 'typescript'

export interface Hover {
  /** The printed type, on one line. */
  type: string
  /** How many lines an editor shows it in. */
  lines: number
  description: string
}

/** Asks TypeScript's language service about each name that a file declares or sets, at its first occurrence. */
export function readHovers(file: string, compilerOptions: ts.CompilerOptions): Map<string, Hover> {
  const service = ts.createLanguageService({
    getScriptFileNames: () => [file],
    getScriptVersion: () => '1',
    getScriptSnapshot: (path) => {
      const text = ts.sys.readFile(path)
      return text === undefined ? undefined : ts.ScriptSnapshot.fromString(text)
    },
    getCurrentDirectory: () => dirname(file),
    getCompilationSettings: () => ({ ...compilerOptions, noEmit: true, noErrorTruncation: true }),
    getDefaultLibFileName: ts.getDefaultLibFilePath,
    fileExists: ts.sys.fileExists,
    readFile: ts.sys.readFile,
    directoryExists: ts.sys.directoryExists,
    getDirectories: ts.sys.getDirectories,
  })
  const [wrong] = service.getSemanticDiagnostics(file)
  if (wrong) throw new Error(ts.flattenDiagnosticMessageText(wrong.messageText, '\n'))
  const found = new Map<string, Hover>()
  const visit = (node: ts.Node) => {
    const isNamed = [
      ts.isVariableDeclaration,
      ts.isBindingElement,
      ts.isTypeAliasDeclaration,
      ts.isPropertyAssignment,
    ].some((is) => is(node))
    const { name } = node as { name?: ts.Node }
    if (isNamed && name && ts.isIdentifier(name) && !found.has(name.text)) {
      const info = service.getQuickInfoAtPosition(file, name.getStart())
      const text = ts.displayPartsToString(info?.displayParts)
      const type = text.replaceAll(/\s+/g, ' ')
      found.set(name.text, {
        type,
        lines: text.split('\n').length,
        description: ts.displayPartsToString(info?.documentation),
      })
    }
    ts.forEachChild(node, visit)
  }
  const source = service.getProgram()?.getSourceFile(file)
  if (source) visit(source)
  service.dispose()
  return found
}

/** Reads the options of a configuration of TypeScript. */
export function readCompilerOptions(path: string): ts.CompilerOptions {
  const { config } = ts.readConfigFile(path, ts.sys.readFile)
  return ts.parseJsonConfigFileContent(config, ts.sys, dirname(path)).options
}
