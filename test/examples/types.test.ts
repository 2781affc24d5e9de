// The examples' types: JavaScript with JSDoc, and the pages' TypeScript. One program for all, because checking the libraries' types
// costs more than checking the examples.
import { readdirSync } from 'node:fs'
import { join, sep } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { beforeAll, describe, expect, it } from 'vitest'

const examples = fileURLToPath(new URL('../../examples/', import.meta.url))
const TIMEOUT_MS = 120_000
const names = readdirSync(examples).filter((name) => ts.sys.fileExists(join(examples, name, 'tsconfig.json')))

describe('the types of the examples', () => {
  let diagnostics: readonly ts.Diagnostic[]
  beforeAll(() => {
    const configs = names.map(readConfig)
    const [options] = configs.map(withoutPath)
    // One that needs options of its own needs a program of its own.
    for (const config of configs) expect(withoutPath(config)).toEqual(options)
    const files = configs.flatMap(({ fileNames }) => fileNames)
    diagnostics = ts.getPreEmitDiagnostics(ts.createProgram(files, { ...configs[0]?.options, noEmit: true }))
  }, TIMEOUT_MS)

  it('are those of every example that is a program', () => {
    expect(names).toEqual(['browser', 'encrypt-csv', 'encrypted-files', 'quickstart', 'searchable-postgres', 'web-app'])
  })

  it.each(names)('hold in %s', (name) => {
    expect(
      diagnostics.filter(({ file }) => file?.fileName.startsWith(posix(join(examples, name, sep)))).map(describeOne),
    ).toEqual([])
  })

  it('hold in what they share', () => {
    expect(diagnostics.map(describeOne)).toEqual([])
  })
})

function readConfig(name: string): ts.ParsedCommandLine {
  const path = join(examples, name, 'tsconfig.json')
  const { config, error } = ts.readConfigFile(path, ts.sys.readFile)
  expect(error).toBeUndefined()
  const parsed = ts.parseJsonConfigFileContent(config, ts.sys, join(examples, name), undefined, path)
  expect(parsed.errors).toEqual([])
  expect(parsed.fileNames.length).toBeGreaterThan(0)
  return parsed
}

function withoutPath({ options: { configFilePath: _, ...options } }: ts.ParsedCommandLine): ts.CompilerOptions {
  return options
}

function describeOne({ file, messageText }: ts.Diagnostic): string {
  return `${file?.fileName ?? ''}: ${ts.flattenDiagnosticMessageText(messageText, '\n')}`
}

/** A path as TypeScript names files. */
function posix(path: string): string {
  return path.replaceAll(sep, '/')
}
