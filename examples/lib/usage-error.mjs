// An error that the user can fix: printed without a stack, exit code 2.

export class UsageError extends Error {
  /** @override */
  name = 'UsageError'
}
