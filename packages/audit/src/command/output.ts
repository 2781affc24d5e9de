/** Output of the commands: JSON for programs, tables for people. */

/** Prints a value as one line of JSON. */
export function printJson(value: unknown): void {
  print(JSON.stringify(value))
}

/** Prints lines of text. */
export function print(...lines: string[]): void {
  process.stdout.write(`${lines.map(printable).join('\n')}\n`)
}

/**
 * Escapes characters that a terminal would obey, or show in another order, as in JSON: tenants choose names,
 * and operators read them.
 */
export function printable(line: string): string {
  return line.replace(
    /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/gu,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

/** Lays rows out under their headings, in columns; returns the lines. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const all = [headings, ...rows].map((row) => row.map(printable))
  const widths = headings.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)))
  return all.map((row) =>
    row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd(),
  )
}

export interface Progress {
  /** shows the progress in one line, on a terminal only */
  (state: string): void
  /** clears the line */
  done(): void
}

/** Shows progress on standard error. */
export function showProgress(what: string): Progress {
  const isTerminal = process.stderr.isTTY
  const show = (state: string) => {
    if (isTerminal) process.stderr.write(`\r\u001b[K${printable(`${what} ${state}`)}`)
  }
  return Object.assign(show, {
    done: () => {
      if (isTerminal) process.stderr.write('\r\u001b[K')
    },
  })
}
