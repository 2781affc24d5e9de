// Builds dist: the pages as the server serves them (the folders are those of the URLs), and the page that verifies
// exports as one file, which the server serves too and which opens from disk.
import { createHash } from 'node:crypto'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { REPORT_STYLE } from '@eaas/audit'
import { build } from 'vite'

const HERE = dirname(fileURLToPath(import.meta.url))
const PAGES = join(HERE, 'pages')
const DIST = join(HERE, 'dist')
const VERIFIER = 'console/verify.html'
const { version, bundled } = JSON.parse(await readFile(join(HERE, 'package.json'), 'utf8'))

/** The packages whose code is in a script, those inlined in packages of ours too, by the comments that tsup leaves there. */
const inlined = new Set()
const noteInlined = {
  name: 'note-inlined',
  async generateBundle(_, files) {
    for (const { modules = {} } of Object.values(files)) {
      for (const [id, { renderedLength }] of Object.entries(modules)) {
        if (renderedLength === 0) continue
        const comments = id.includes('/packages/') ? await readFile(id, 'utf8') : ''
        for (const [, name] of `${id}\n${comments}`.matchAll(/^\/.*\/node_modules\/((?:@[\w-]+\/)?[\w.-]+)/gm))
          inlined.add(name)
      }
    }
  },
}

const common = {
  configFile: false,
  publicDir: false,
  root: PAGES,
  base: './', // a proxy may have put a path in front
  logLevel: 'warn',
  plugins: [noteInlined],
  define: { VERSION: JSON.stringify(version) },
}
const output = { target: 'es2022', modulePreload: { polyfill: false }, reportCompressedSize: false }

await rm(DIST, { recursive: true, force: true })
await build({
  ...common,
  build: {
    ...output,
    outDir: DIST,
    emptyOutDir: false,
    assetsDir: 'console/assets',
    assetsInlineLimit: 0,
    rollupOptions: { input: [join(PAGES, 'console.html'), join(PAGES, 'console/index.html')] },
  },
})
const worker = await buildScript('src/verify/worker.ts')
const page = await buildScript('src/verify/main.tsx', { WORKER_SCRIPT: JSON.stringify(worker) })
const style = (await readFile(join(HERE, 'src/verify/verify.css'), 'utf8')) + REPORT_STYLE
await mkdir(join(DIST, 'console'), { recursive: true })
await writeFile(join(DIST, VERIFIER), await inline({ script: page, style }))
const names = [...inlined].sort().join(', ')
if (names !== Object.keys(bundled).join(', ')) throw new Error(`package.json does not list what is bundled: ${names}`)

/** Builds one script without imports. */
async function buildScript(entry, define = {}) {
  const [{ output: files }] = await build({
    ...common,
    define: { ...common.define, ...define, 'process.env.NODE_ENV': '"production"' },
    build: {
      ...output,
      write: false,
      lib: { entry: join(HERE, entry), formats: ['iife'], name: 'eaas', fileName: 'script' },
    },
  })
  return files[0].code.trim()
}

/** Writes script and style into the page, with a policy that lets it run these two and load nothing. */
async function inline({ script, style }) {
  const text = script.replaceAll('</script', '<\\/script').replaceAll('<!--', '<\\!--')
  const policy = [
    "default-src 'none'",
    `script-src '${hashOf(text)}'`,
    `style-src '${hashOf(style)}'`,
    'worker-src blob:', // of the script's own text
    "connect-src 'none'",
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ')
  const parts = { POLICY: policy, '/*STYLE*/': style, '/*SCRIPT*/': text }
  const template = await readFile(join(PAGES, VERIFIER), 'utf8')
  return template.replaceAll(/POLICY|\/\*STYLE\*\/|\/\*SCRIPT\*\//g, (name) => parts[name])
}

function hashOf(text) {
  return `sha256-${createHash('sha256').update(text).digest('base64')}`
}
