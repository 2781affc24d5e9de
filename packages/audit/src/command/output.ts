/** Output of the commands: JSON for programs, tables for people. */
import { visible, visibleLine } from '@eaas/protocol'
import { STANDARD_STREAM } from './files.js'

export function printJson(value: unknown): void {
  print(JSON.stringify(value))
}

/** Prints lines on standard output, or on standard error if standard output has the data. */
export function printBeside(out: string | undefined, ...lines: readonly string[]): void {
  const stream = out === STANDARD_STREAM ? process.stderr : process.stdout
  stream.write(`${lines.map(visibleLine).join('\n')}\n`)
}

/** Prints lines of text. For more than ten thousand, pass an array: JavaScript limits the number of arguments. */
export function print(...lines: (string | readonly string[])[]): void {
  process.stdout.write(`${lines.flat().map(visibleLine).join('\n')}\n`)
}

export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const all = [headings, ...rows].map((row) => row.map(visible))
  const widths = headings.map((_, column) => all.reduce((most, row) => Math.max(most, row[column]?.length ?? 0), 0))
  return all.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  )
}

/** Shows progress in one line, on a terminal only; `done` clears it. */
export function showProgress(what: string) {
  const { stderr } = process
  const write = (line: string) => void (stderr.isTTY && stderr.write(`\r\u001b[K${visibleLine(line)}`))
  return Object.assign((state: string) => write(`${what} ${state}`), { done: () => write('') })
}
