/** The log of a witness: JSON lines on standard error, as the server writes them. */
import type { LogLevel } from '../config.js'

/** Pino's numbers of the levels. */
const NUMBERS = { debug: 20, info: 30, warn: 40, error: 50, fatal: 60, silent: 100 } as const satisfies Record<
  LogLevel,
  number
>
/**
 * Most bytes that may wait for a reader of the log that has stopped reading: lines beyond that are dropped.
 */
const MOST_WAITING_BYTES = 1_048_576

export type Log = Record<'debug' | 'info' | 'warn' | 'error', (details: Record<string, unknown>, msg: string) => void>

/** Creates a log that writes lines from the level on. */
export function createLog(
  least: LogLevel,
  write: (line: string) => void = (line) => {
    if (process.stderr.writableLength < MOST_WAITING_BYTES) process.stderr.write(line)
  },
): Log {
  const at = (level: keyof Log) => (details: Record<string, unknown>, msg: string) => {
    if (NUMBERS[level] < NUMBERS[least]) return
    write(`${JSON.stringify({ level: NUMBERS[level], time: Date.now(), ...details, msg })}\n`)
  }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}
