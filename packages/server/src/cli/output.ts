/** What commands print: JSON for programs, tables for people. */

/** Prints a value as one line of JSON. */
export function printJson(value: unknown): void {
  process.stdout.write(`${JSON.stringify(value)}\n`)
}

/** Prints lines of text. */
export function print(...lines: string[]): void {
  process.stdout.write(`${lines.join('\n')}\n`)
}

/** Lays rows out under their headings, in columns. */
export function table(headings: readonly string[], rows: readonly (readonly string[])[]): string {
  const all = [headings, ...rows]
  const widths = headings.map((_, column) => Math.max(...all.map((row) => row[column]?.length ?? 0)))
  return all
    .map((row) =>
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

export interface Progress {
  /** shows how far the work is; in place on a terminal, nowhere else */
  (state: string): void
  /** clears the line */
  done(): void
}

/** Shows progress on standard error. */
export function showProgress(what: string): Progress {
  const isTerminal = process.stderr.isTTY
  const show = (state: string) => {
    if (isTerminal) process.stderr.write(`\r\u001b[K${what} ${state}`)
  }
  return Object.assign(show, {
    done: () => {
      if (isTerminal) process.stderr.write('\r\u001b[K')
    },
  })
}
