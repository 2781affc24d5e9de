/** What a command is. */
import type { Arguments, OptionSpecs } from './arguments.js'
import { ArgumentsError, type Io, print } from './io.js'

export interface Command {
  /** One line for the list of commands. */
  summary: string
  /** What `--help` prints. */
  help: string
  options: OptionSpecs
  /** How many positional arguments it takes at most. */
  positionals: number
  run(io: Io, given: Arguments): Promise<void>
}

/** Prints what was done, as a line or as JSON. Nothing where standard output has the data. */
export async function report(
  io: Io,
  { given, out }: { given: Arguments; out: string },
  result: object,
  line: string,
): Promise<void> {
  if (out === '-') return
  await print(io, given.has('json') ? JSON.stringify(result) : line)
}

/** Refuses `--json` where standard output has the data. @throws UsageError */
export function assertReportable(given: Arguments, out: string): void {
  if (given.has('json') && out === '-')
    throw new ArgumentsError('--json needs --out <file>: standard output has the data')
}
