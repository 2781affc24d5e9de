/** The version of this package. This module must stay one level below the manifest, in `src/` or `dist/`. */
import { readFileSync } from 'node:fs'

/** Set by the build, if git was available. */
declare const EAAS_COMMIT: string | undefined

const { version, repository } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  version: string
  repository?: object
}
const commit = typeof EAAS_COMMIT === 'undefined' ? undefined : EAAS_COMMIT

/** The commit distinguishes builds of clones; `npm run release` adds the repository to the manifest. */
export const VERSION = repository === undefined && commit ? `${version}+${commit}` : version
