export const FAULT_SUITES: Readonly<Record<string, readonly string[]>>
