/**
 * The directory that the build puts the files of docs/openapi and the image of the embedded database into. This module must
 * stay directly under `src/` or `dist/`, so that both find it in `dist/`.
 */
export const BUILT_DIRECTORY = new URL('../dist/', import.meta.url)
