// Runs the snippets of a page, as one program, in a folder of its own.
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { transform } from 'esbuild'
import { onTestFinished, vi } from 'vitest'
import { PRISMA, programOf, WITHOUT_ADAPTER } from '../support/sources/snippets.js'
import { createPrelude, type PageService } from './snippet-prelude.js'

/** What a page imports besides the SDK, such as an ORM. */
const PACKAGES = fileURLToPath(new URL('../../node_modules', import.meta.url))
/** What a page takes for PGlite. */
const CREATED_PGLITE = fileURLToPath(new URL('created-pglite.ts', import.meta.url))

/** @throws what a snippet throws, or an error about something printed that the page does not promise */
export async function runPage(markdown: string, service: PageService, parent: string): Promise<void> {
  const folder = mkdtempSync(join(parent, 'page-'))
  const { globals, fetch } = await createPrelude(service)
  const here = process.cwd()
  onTestFinished(() => {
    process.chdir(here)
    vi.unstubAllEnvs()
    vi.unstubAllGlobals()
    vi.restoreAllMocks()
    globals.eaas.close()
  })
  symlinkSync(PACKAGES, join(folder, 'node_modules'), 'junction')
  mkdirSync(join(folder, '.eaas'))
  vi.stubEnv('EAAS_URL', service.baseUrl)
  vi.stubEnv('EAAS_API_KEY', service.apiKey)
  for (const [name, value] of Object.entries({ ...globals, fetch })) vi.stubGlobal(name, value)
  for (const name of ['log', 'error'] as const) vi.spyOn(console, name).mockReturnValue(undefined)
  if (markdown.includes("'./generated/prisma/")) await addPrisma(folder)
  for (const [, name = ''] of markdown.matchAll(/'\.\/(seal-\w+\.mjs)'/g))
    cpSync(join(WITHOUT_ADAPTER, name), join(folder, name))
  const file = join(folder, 'page.js')
  const program = programOf(markdown).replace("'@electric-sql/pglite'", `'${CREATED_PGLITE}'`)
  writeFileSync(file, await transpile(program))
  process.chdir(folder)
  await import(/* @vite-ignore */ file)
}

/** Adds Prisma's client to the folder of a page. */
export async function addPrisma(folder: string): Promise<void> {
  for (const path of readdirSync(PRISMA, { recursive: true, encoding: 'utf8' })) {
    if (!path.endsWith('.ts')) continue
    const to = join(folder, path.replace(/\.ts$/, '.js'))
    mkdirSync(dirname(to), { recursive: true })
    writeFileSync(to, await transpile(readFileSync(join(PRISMA, path), 'utf8')))
  }
}

/** Leaves the types out. */
export async function transpile(typescript: string): Promise<string> {
  const tsconfigRaw = { compilerOptions: { verbatimModuleSyntax: true } }
  const { code } = await transform(typescript, { loader: 'ts', tsconfigRaw })
  return code
}
