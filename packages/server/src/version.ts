/** The version of this package. This module must stay one level below the manifest, in `src/` or `dist/`. */
import { readFileSync } from 'node:fs'

/** Written in by the build; none where git was not there. */
declare const EAAS_COMMIT: string | undefined

const { version, repository } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as {
  version: string
  repository?: object
}
const commit = typeof EAAS_COMMIT === 'undefined' ? undefined : EAAS_COMMIT

/** The commit tells two builds of clones apart; `npm run release` writes the repository into the manifest. */
export const VERSION = repository === undefined && commit ? `${version}+${commit}` : version
