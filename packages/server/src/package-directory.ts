/** Paths beside the code. This module must stay directly under `src/` or `dist/`. */
import { createRequire } from 'node:module'
import { dirname } from 'node:path'

export const MIGRATIONS_DIRECTORY = new URL('../migrations/', import.meta.url)

/** The build puts the files of docs/openapi and the image of the embedded database here. */
export const BUILT_DIRECTORY = new URL('../dist/', import.meta.url)

/** Finds the pages of the console in their package. @throws if the package was not built */
export function findConsoleDirectory(): string {
  try {
    return dirname(createRequire(import.meta.url).resolve('@eaas/console/dist/console.html'))
  } catch (error) {
    throw new Error('the pages of @eaas/console are missing: npm run build makes them; EAAS_CONSOLE=off serves none', {
      cause: error,
    })
  }
}
