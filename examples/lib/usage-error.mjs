// What the person at the command line can fix: printed without a stack, exit code 2.

export class UsageError extends Error {
  /** @override */
  name = 'UsageError'
}
