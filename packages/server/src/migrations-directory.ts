/**
 * The directory of the package's SQL files. This module must stay directly under `src/` and `dist/`, beside
 * which they are shipped.
 */
export const MIGRATIONS_DIRECTORY = new URL('../migrations/', import.meta.url)
