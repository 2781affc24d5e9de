/** The version of this package. This module must stay one level below the manifest, in `src/` or `dist/`. */
import { readFileSync } from 'node:fs'

/** Written in by the build; none where git was not there. */
declare const EAAS_COMMIT: string | undefined

const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }
const commit = typeof EAAS_COMMIT === 'undefined' ? undefined : EAAS_COMMIT

/** Before the first release, the commit tells two builds apart. */
export const VERSION = version === '0.0.0' && commit ? `${version}+${commit}` : version
