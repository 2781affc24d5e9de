/** Logs JSON lines on standard error, as the server does; standard output is for people. */

export const LOG_LEVELS = ['fatal', 'error', 'warn', 'info', 'debug', 'silent'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

/** Pino's numbers for the levels. */
const NUMBERS = { debug: 20, info: 30, warn: 40, error: 50, fatal: 60, silent: 100 } as const satisfies Record<
  LogLevel,
  number
>
/** Most bytes that may wait for a log reader that stopped reading; further lines are dropped. */
const MOST_WAITING_BYTES = 1_048_576

export type Log = Record<
  'debug' | 'info' | 'warn' | 'error' | 'fatal',
  (details: Record<string, unknown>, msg: string) => void
>

export function createLog(least: LogLevel, write: (line: string) => void = writeOrDrop): Log {
  const at = (level: keyof Log) => (details: Record<string, unknown>, msg: string) => {
    if (NUMBERS[level] < NUMBERS[least]) return
    write(`${JSON.stringify({ level: NUMBERS[level], time: Date.now(), ...details, msg })}\n`)
  }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error'), fatal: at('fatal') }
}

/** Writes a line to standard error, or drops it if the reader has stopped reading. */
export function writeOrDrop(line: string): void {
  if (process.stderr.writableLength < MOST_WAITING_BYTES) process.stderr.write(line)
}

/**
 * Lets the process survive a log or standard output that cannot be written: output is then dropped, without waiting. By
 * default Node blocks on a full pipe, and ends the process by an `error` event on a full disk.
 */
export function outliveOutput(): void {
  for (const stream of [process.stdout, process.stderr] as NodeJS.WriteStream[]) {
    stream.on('error', () => undefined)
    const { _handle: handle } = stream as { _handle?: { setBlocking?(isBlocking: boolean): unknown } }
    if (!stream.isTTY) handle?.setBlocking?.(false)
  }
}
