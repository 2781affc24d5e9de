// A server whose source was patched: the files are written beside each other, their imports resolved to the genuine server's, and loaded.
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { afterAll, beforeAll } from 'vitest'
import type * as entryModule from '../../../packages/audit/src/formats/chain.js'
import type * as chainModule from '../../../packages/server/src/core/audit/formats/chain.js'
import type * as rowMacModule from '../../../packages/server/src/core/audit/formats/row-mac.js'
import type { Mutant } from './mutants.js'

const AUDIT = new URL('../../../packages/server/src/core/audit/', import.meta.url)
const PROTOCOL = fileURLToPath(new URL('../../../packages/protocol/src/index.ts', import.meta.url))
const AUDIT_PACKAGE = fileURLToPath(new URL('../../../packages/audit/src/', import.meta.url))
const SERVER = fileURLToPath(new URL('../../../packages/server/src/core/', import.meta.url))

/** What chain.ts and row-mac.ts export. */
export type Macs = typeof entryModule & typeof chainModule & typeof rowMacModule

let folder: string

/** Makes the folder of the patched files; each file of tests calls it, because a worker loads this module once for all of them. */
export function useMutantFolder(): void {
  beforeAll(async () => {
    // In node_modules of this project, so that the patched files are loaded as the tests are.
    folder = await mkdtemp(fileURLToPath(new URL('../../../node_modules/.mutants-', import.meta.url)))
  })
  afterAll(() => rm(folder, { recursive: true, force: true }))
}

/** Reads a file of packages/server/src/core/audit, or beside it. */
export const readSource = (file: string) => readFile(new URL(file, AUDIT), 'utf8')

/** Where the entries are hashed, and where they and the rows are authenticated. */
const FILES = [
  ['entry', '../../../../audit/src/formats/chain.ts'],
  ['chain', 'formats/chain.ts'],
  ['row-mac', 'formats/row-mac.ts'],
] as const

/** Loads the chain and row-mac.ts, as the mutant patches them. */
export async function loadMacs(name: string, mutant?: Mutant): Promise<Macs> {
  for (const [stem, file] of FILES) {
    const text = mutant?.files[file] ?? (await readSource(file))
    const resolved = text
      .replaceAll("'@eaas/protocol'", `'${PROTOCOL}'`)
      .replaceAll("'@eaas/audit/formats'", `'./${name}-entry.ts'`)
      .replaceAll("'../crypto.js'", `'${AUDIT_PACKAGE}crypto.ts'`)
      .replace(/'\.\.\/\.\.\/([a-z/.-]+)\.js'/g, (_, imported) => `'${SERVER}${imported}.ts'`)
      .replaceAll("'./chain.js'", `'./${name}-chain.ts'`)
    await writeFile(join(folder, `${name}-${stem}.ts`), resolved)
  }
  return {
    ...(await importFile(`${name}-entry`)),
    ...(await importFile(`${name}-chain`)),
    ...(await importFile(`${name}-row-mac`)),
  } as Macs
}

/** Loads a text in place of a file of packages/server/src/core/audit, or beside it; what it imports is the genuine server's. */
export async function loadFile<Module>(name: string, file: string, text: string): Promise<Module> {
  const resolved = text
    .replaceAll("'@eaas/protocol'", `'${PROTOCOL}'`)
    .replaceAll("'@eaas/audit/formats'", `'${AUDIT_PACKAGE}formats.ts'`)
    .replace(/'(\.\.?\/[a-z/.-]+)\.js'/g, (_, imported) => {
      const target = fileURLToPath(new URL(`${imported}.ts`, new URL(file, AUDIT)))
      return `'${target}'`
    })
  await writeFile(join(folder, `${name}.ts`), resolved)
  return (await importFile(name)) as Module
}

function importFile(name: string): Promise<object> {
  return import(/* @vite-ignore */ pathToFileURL(join(folder, `${name}.ts`)).href)
}
