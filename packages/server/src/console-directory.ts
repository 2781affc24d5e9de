/** Finds the pages of the console in their package. */
import { createRequire } from 'node:module'
import { dirname } from 'node:path'

/** @throws if the package has no pages, because it was not built */
export function findConsoleDirectory(): string {
  try {
    return dirname(createRequire(import.meta.url).resolve('@eaas/console/dist/console.html'))
  } catch (error) {
    throw new Error('the pages of @eaas/console are missing: npm run build makes them; EAAS_CONSOLE=off serves none', {
      cause: error,
    })
  }
}
