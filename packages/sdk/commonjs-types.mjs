// Makes the types of the CommonJS files: those of the ES modules say the same, but TypeScript takes a `.d.ts` here for the types
// of an ES module, since the package's `type` says so. A second run of the compiler would take as long as the whole build.
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'

const TESTING = 'testing/index.d.ts' // of the SDK; `packages/cli` has none

const own = readdirSync('dist').filter((name) => name.endsWith('.d.ts'))
for (const path of existsSync(`dist/${TESTING}`) ? [...own, TESTING] : own) {
  const text = readFileSync(`dist/${path}`, 'utf8')
  const [target, types] = path === TESTING ? ['testing.d.ts', text.replaceAll(/(['"])\.\.\//g, '$1./')] : [path, text]
  writeFileSync(
    `dist/cjs/${target.replace(/\.d\.ts$/, '.d.cts')}`,
    types.replace(/(from|import\(?)(\s*)(['"])(\.{1,2}\/[^'"]+)\.js\3/g, '$1$2$3$4.cjs$3'),
  )
}
