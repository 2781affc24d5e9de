/** How a failed command ends: what it prints, and its exit code. */
import { visibleLine } from '@eaas/protocol'
import { CheckpointError } from '../formats/signed-note.js'
import { ForeignServerError } from '../node/data-directory-lock.js'
import { ListenError } from '../node/listen.js'
import { WitnessError } from '../witness/state-file.js'
import { CommandError } from './files.js'

/** Errors whose message is enough; any other error is a defect, and is printed with its stack. */
const EXPECTED = [CheckpointError, CommandError, ForeignServerError, ListenError, WitnessError]

/** Prints why the command failed, and ends the process, with exit code 1 unless another one is set. */
export function fail(error: unknown): void {
  process.exitCode ??= 1
  const lines = explain(error).split('\n').map(visibleLine)
  process.stderr.write(`eaas-audit: ${lines.join('\n')}\n`, () => process.exit())
}

function explain(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { message, stack } = error
  const { code } = error as NodeJS.ErrnoException
  if (EXPECTED.some((kind) => error instanceof kind)) return message
  // System errors carry a code; their stack adds nothing.
  if (code === undefined) return stack ?? message
  return message.includes(code) ? message : `${message} (${code})`
}
