// What the person at the command line can mend: told in one sentence, exit code 2.

export class UsageError extends Error {
  /** @override */
  name = 'UsageError'
}
