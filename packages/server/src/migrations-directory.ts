/**
 * The directory of the package's SQL files. This module must stay directly under `src/` and `dist/`: the files are
 * shipped next to both.
 */
export const MIGRATIONS_DIRECTORY = new URL('../migrations/', import.meta.url)
