export type Tier = 'test' | 'test:all' | 'test:slow'
export const SLOW: readonly string[]
export const FIRST_ON_DATABASE: readonly string[]
export const LATER: readonly string[]
export const SHARDS: Readonly<Record<string, readonly string[]>>
export function isOnDatabase(path: string): boolean
export function isNamed(paths: readonly string[], file: string): boolean
export function tierOf(file: string): Tier
export function listTests(): string[]
