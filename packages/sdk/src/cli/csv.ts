/** CSV as RFC 4180 says, row by row: quotes are doubled within quotes, and a line break in quotes belongs to its cell. */
import { UsageError } from './io.js'

/** Splits text that arrives in parts into rows of cells. */
export class CsvReader {
  readonly #delimiter: string
  #row: string[] = []
  #cell = ''
  /** Whether the cell began with a quote; `closed` once that quote was closed. */
  #quoted: 'no' | 'open' | 'closed' = 'no'
  /** Whether a line feed that follows belongs to the line break before. */
  #afterReturn = false
  #line = 1

  constructor(delimiter: string) {
    this.#delimiter = delimiter
  }

  /** Returns the rows that are complete. @throws UsageError where a quote is misplaced */
  push(text: string): string[][] {
    const rows: string[][] = []
    for (const character of text) {
      const afterReturn = this.#afterReturn
      this.#afterReturn = false
      if (character === '\n') this.#line++
      if (this.#quoted === 'open') {
        if (character === '"') this.#quoted = 'closed'
        else this.#cell += character
      } else if (character === '"') this.#quote()
      else if (character === this.#delimiter) this.#endCell()
      else if (character === '\r' || character === '\n') {
        this.#afterReturn = character === '\r'
        if (!(afterReturn && character === '\n')) this.#endRow(rows)
      } else if (this.#quoted === 'closed') this.#refuse('text follows a closing quote')
      else this.#cell += character
    }
    return rows
  }

  /** Returns the last row, where the text does not end with a line break. @throws UsageError where a quote is open */
  end(): string[][] {
    if (this.#quoted === 'open') this.#refuse('a quote is never closed')
    const rows: string[][] = []
    this.#endRow(rows)
    return rows
  }

  #quote(): void {
    if (this.#quoted === 'closed') {
      this.#cell += '"' // two quotes are one
      this.#quoted = 'open'
    } else if (this.#cell === '') this.#quoted = 'open'
    else this.#refuse('a quote stands within a cell that does not begin with one')
  }

  #endCell(): void {
    this.#row.push(this.#cell)
    this.#cell = ''
    this.#quoted = 'no'
  }

  /** An empty line is no row. */
  #endRow(rows: string[][]): void {
    const isEmpty = this.#row.length === 0 && this.#cell === '' && this.#quoted === 'no'
    if (isEmpty) return
    this.#endCell()
    rows.push(this.#row)
    this.#row = []
  }

  #refuse(what: string): never {
    throw new UsageError(`line ${this.#line}: ${what}`)
  }
}

/** Writes a row. A cell is quoted where it has to be. */
export function writeRow(cells: readonly string[], { delimiter, lineBreak }: { delimiter: string; lineBreak: string }) {
  const [only] = cells
  if (cells.length === 1 && only === '') return `""${lineBreak}` // an empty line would be no row
  const quoted = cells.map((cell) =>
    /["\r\n]/.test(cell) || cell.includes(delimiter) ? `"${cell.replaceAll('"', '""')}"` : cell,
  )
  return quoted.join(delimiter) + lineBreak
}
