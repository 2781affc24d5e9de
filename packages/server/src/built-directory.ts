/**
 * The directory that the build puts the files of docs/openapi into. This module must stay directly under `src/` or
 * `dist/`, so that both find it in `dist/`.
 */
export const BUILT_DIRECTORY = new URL('../dist/', import.meta.url)
