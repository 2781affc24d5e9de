// Patches the database driver while it is bundled. Each .diff in the folder `patches` changes the pinned release of
// postgres.js, and says why, with the upstream issue and the test that fails without it. Numbers of issues and pull
// requests are those of https://github.com/porsager/postgres. The first release that contains a fix replaces its .diff.
import { readdirSync, readFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import type { Plugin } from 'esbuild'

const FOLDER = new URL('../patches/', import.meta.url)
export const PATCHED_FILES = /[\\/]postgres[\\/]src[\\/](connection|index|query)\.js$/

/** A run of lines of the driver, and its replacement. */
interface Hunk {
  diff: string
  /** as the diff names it: `src/index.js` */
  file: string
  found: string
  replacement: string
}

const hunks = readdirSync(FOLDER)
  .sort()
  .flatMap((diff) => readHunks(diff, readFileSync(new URL(diff, FOLDER), 'utf8')))

/** Reads the hunks of a unified diff; ignores text before the first `---`. */
function readHunks(diff: string, text: string): Hunk[] {
  return text.split(/^--- a\//m).flatMap((part, at) => {
    const [file = '', ...rest] = part.split('\n')
    if (at === 0) return []
    return rest
      .slice(1)
      .join('\n')
      .split(/^@@ .*\n/m)
      .slice(1)
      .map((hunk) => {
        const lines = hunk.match(/.*\n/g) ?? []
        const without = (sign: string) =>
          lines
            .filter((line) => line[0] !== sign)
            .map((line) => line.slice(1))
            .join('')
        return { diff, file, found: without('+'), replacement: without('-') }
      })
  })
}

/** Patches the text of one of the driver's files. @throws if a diff does not fit, as for a text of another release */
export function patchPostgres(text: string, path: string): string {
  const own = hunks.filter(({ file }) => path.replaceAll('\\', '/').endsWith(file))
  return own.reduce((rest, { diff, found, replacement }) => {
    if (rest.split(found).length !== 2)
      throw new Error(`patches/${diff} does not fit this release of postgres.js: cannot find exactly once\n${found}`)
    return rest.replace(found, () => replacement)
  }, text)
}

/** Bundles the patched driver. */
export const patchedPostgres: Plugin = {
  name: 'patched-postgres',
  setup(build) {
    build.onLoad({ filter: PATCHED_FILES }, async ({ path }) => ({
      contents: patchPostgres(await readFile(path, 'utf8'), path),
      loader: 'js',
    }))
  },
}
