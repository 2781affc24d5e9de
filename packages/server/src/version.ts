/** The version of this package: this module stays directly under `src/` and `dist/`, beside the manifest. */
import { readFileSync } from 'node:fs'

const manifest = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }

export const VERSION = manifest.version
