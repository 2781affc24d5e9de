export const BUILT: string[]
export function builtEntries(folder: string): string[]
export function listOutdated(): string[]
