// The examples' types: JavaScript with JSDoc, and the pages' TypeScript. One program for all, because checking the libraries' types
// costs more than checking the examples.
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import ts from 'typescript'
import { beforeAll, describe, expect, it } from 'vitest'
import { findTypeErrors } from '../support/sources/native-compiler.js'
import { ROOT } from '../support/sources/source-files.js'

const examples = join(ROOT, 'examples')
const TIMEOUT_MS = 120_000
const names = readdirSync(examples).filter((name) => ts.sys.fileExists(join(examples, name, 'tsconfig.json')))

describe('the types of the examples', () => {
  let diagnostics: string[]
  beforeAll(async () => {
    const configs = names.map(readConfig)
    const [options] = configs.map(withoutPath)
    // One that needs options of its own needs a program of its own.
    for (const config of configs) expect(withoutPath(config)).toEqual(options)
    const extended = join(examples, names[0] ?? '', 'tsconfig.json')
    const files = configs.flatMap(({ fileNames }) => fileNames)
    diagnostics = await findTypeErrors({ files, extended, below: ROOT })
  }, TIMEOUT_MS)

  it('are those of every example that is a program', () => {
    expect(names).toEqual([
      ...'browser encrypt-csv encrypted-files quickstart searchable-postgres web-app without-adapter'.split(' '),
    ])
  })

  it.each(names)('hold in %s', (name) => {
    expect(diagnostics.filter((line) => line.startsWith(`examples/${name}/`))).toEqual([])
  })

  it('hold in what they share', () => {
    expect(diagnostics).toEqual([])
  })

  // Without it, undefined is of every type.
  it('hold without `strict`, which Next.js sets to false where there is no tsconfig.json', async () => {
    const compilerOptions = { strict: false, exactOptionalPropertyTypes: false }
    const folder = join(examples, 'web-app')
    const files = ['database.mjs', 'schema.mjs'].map((name) => join(folder, name))
    expect(
      await findTypeErrors({ files, extended: join(folder, 'tsconfig.json'), compilerOptions, below: ROOT }),
    ).toEqual([])
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
