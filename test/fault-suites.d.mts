export const files: (folder: string, names: string) => string[]
export const FAULT_SUITES: Readonly<Record<string, readonly string[]>>
