/**
 * The version of this package. This module must stay directly under `src/` or `dist/`, one level below the
 * manifest.
 */
import { readFileSync } from 'node:fs'

const manifest = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8')) as { version: string }

export const VERSION = manifest.version
