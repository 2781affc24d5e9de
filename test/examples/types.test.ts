// The examples' types: JavaScript with JSDoc, and the pages' TypeScript. One program for all, because checking the libraries' types
// costs more than checking the examples.
import { execFile } from 'node:child_process'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import ts from 'typescript'
import { beforeAll, describe, expect, it } from 'vitest'
import { ROOT } from '../support/source-files.js'

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
    diagnostics = await compile(configs.flatMap(({ fileNames }) => fileNames))
  }, TIMEOUT_MS)

  it('are those of every example that is a program', () => {
    expect(names).toEqual(['browser', 'encrypt-csv', 'encrypted-files', 'quickstart', 'searchable-postgres', 'web-app'])
  })

  it.each(names)('hold in %s', (name) => {
    expect(diagnostics.filter((line) => line.startsWith(`examples/${name}/`))).toEqual([])
  })

  it('hold in what they share', () => {
    expect(diagnostics).toEqual([])
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

/**
 * Checks files with the native compiler, in a fifth of the CPU time of the other one, and with the options of the examples. Returns
 * a line for each error, which begins with the path of the file.
 */
async function compile(files: string[]): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'eaas-types-'))
  const config = join(folder, 'tsconfig.json')
  const compilerOptions = { noEmit: true, typeRoots: [join(ROOT, 'node_modules/@types')] }
  const base = join(examples, names[0] ?? '', 'tsconfig.json')
  writeFileSync(config, JSON.stringify({ extends: base, compilerOptions, include: [], files }))
  const args = [join(ROOT, 'node_modules/typescript-7/bin/tsc'), '--singleThreaded', '--pretty', 'false', '-p', config]
  try {
    return await new Promise((resolve, reject) => {
      execFile(process.execPath, args, { cwd: ROOT }, (error, stdout, stderr) => {
        const lines = stdout.trimEnd().split('\n').filter(Boolean)
        if ((error === null) === (lines.length === 0) && stderr === '') resolve(lines)
        else reject(new Error(`the compiler ended with ${error?.code ?? 0}: ${stdout}${stderr}`))
      })
    })
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
