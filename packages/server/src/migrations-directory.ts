/** Where the package's SQL files lie: this module stays directly under `src/` and `dist/`, beside which they are shipped. */
export const MIGRATIONS_DIRECTORY = new URL('../migrations/', import.meta.url)
