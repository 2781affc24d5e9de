// Loads packages of CommonJS by `require`. An `import` of one has Node search the package's text for the names that it exports, with a
// lexer written in JavaScript, which took a third of the CPU time in which the HTTP server was loaded.
import { createRequire } from 'node:module'
import type { Plugin } from 'esbuild'

const require = createRequire(import.meta.url)

/** The packages of CommonJS that the server imports. */
export const REQUIRED = ['@fastify/cors', 'commander', 'fastify', 'prom-client']

/** Has the bundle take each of them by `require`, as the same instance that an `import` would have. */
export const requiredPackages: Plugin = {
  name: 'required-packages',
  setup(build) {
    const filter = new RegExp(`^(${REQUIRED.join('|')})$`)
    build.onResolve({ filter }, ({ path }) => ({ path, namespace: 'required', sideEffects: false }))
    build.onLoad({ filter: /^/, namespace: 'required' }, ({ path }) => ({ contents: contentsFor(path) }))
  },
}

function contentsFor(name: string): string {
  const names = Object.keys(require(name) as object).filter((key) => /^[a-z]\w*$/i.test(key) && key !== 'default')
  return [
    "import { createRequire } from 'node:module'",
    `const loaded = createRequire(import.meta.url)('${name}')`,
    'export default loaded',
    `export const { ${names.join(', ')} } = loaded`,
  ].join('\n')
}
