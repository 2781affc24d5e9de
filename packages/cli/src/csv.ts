/**
 * CSV as in RFC 4180, row by row: quotes are doubled within quotes, and a line break in quotes belongs to its cell. Our
 * own parser, because it must tell an empty cell from an empty text in quotes: csv-parse does so with a call for each
 * cell, and then takes ten times as long.
 */
import { UsageError } from './io.js'

/** The text of a cell; null for an empty one without quotes, as PostgreSQL's COPY writes NULL. `""` is an empty text. */
export type Cell = string | null

/** The longest record, in UTF-16 code units. Without a limit, an open quote would take the rest of the file. */
const MAX_RECORD_LENGTH = 8 * 1024 * 1024

export class CsvReader {
  readonly #delimiter: string
  #row: Cell[] = []
  #cell = ''
  /** Whether the cell began with a quote, and whether that was closed. */
  #quoted: 'no' | 'open' | 'closed' = 'no'
  /** Whether the last character was a carriage return that ends a row, unless a line feed follows. */
  #afterReturn = false
  /** Whether the last character was a carriage return, which counts as one line with a line feed that follows. */
  #wasReturn = false
  #line = 1
  /** The line at which the record begins, and its length without the cell that is being read. */
  #begin = 1
  #length = 0
  /** What ended the first row; undefined before that. */
  lineBreak: string | undefined

  constructor(delimiter: string) {
    this.#delimiter = delimiter
  }

  /** Returns the rows that are complete. @throws UsageError where a quote is misplaced, or a record too long */
  push(text: string): Cell[][] {
    const rows: Cell[][] = []
    /** Where the part of the cell begins that is not yet in `#cell`. */
    let start = 0
    const take = (end: number) => {
      if (end > start) this.#cell += text.slice(start, end)
    }
    for (let at = 0; at < text.length; at++) {
      const character = text.charAt(at)
      if (this.#afterReturn) {
        this.#afterReturn = false
        this.#endRow(rows, character === '\n' ? '\r\n' : '\r')
        start = at
        if (character === '\n') {
          this.#wasReturn = false
          start = at + 1
          continue
        }
      }
      this.#countLine(character)
      if (this.#quoted === 'open') {
        if (character !== '"') continue
        take(at)
        start = at + 1
        this.#quoted = 'closed'
      } else if (character === '"') {
        take(at)
        start = this.#quote() ? at : at + 1
      } else if (text.startsWith(this.#delimiter, at)) {
        take(at)
        this.#endCell()
        at += this.#delimiter.length - 1
        start = at + 1
      } else if (character === '\r' || character === '\n') {
        take(at)
        start = at + 1
        if (character === '\r') this.#afterReturn = true
        else this.#endRow(rows, '\n')
      } else if (this.#quoted === 'closed') this.#refuse('text follows a closing quote')
    }
    take(text.length)
    this.#assertShort()
    return rows
  }

  /** Returns the last row, if the text does not end with a line break. @throws UsageError if a quote is open */
  end(): Cell[][] {
    if (this.#quoted === 'open') this.#refuse('a quote is never closed', this.#begin)
    const rows: Cell[][] = []
    this.#endRow(rows, this.#afterReturn ? '\r' : '\n')
    return rows
  }

  #countLine(character: string): void {
    if (character === '\r' || (character === '\n' && !this.#wasReturn)) this.#line++
    this.#wasReturn = character === '\r'
  }

  /** Returns whether a quote belongs to the cell, as the second of two. */
  #quote(): boolean {
    if (this.#quoted === 'closed') {
      this.#quoted = 'open'
      return true
    }
    if (this.#cell !== '') this.#refuse('a quote stands within a cell that does not begin with one')
    this.#quoted = 'open'
    return false
  }

  #endCell(): void {
    this.#row.push(this.#cell === '' && this.#quoted === 'no' ? null : this.#cell)
    this.#length += this.#cell.length + 1
    this.#cell = ''
    this.#quoted = 'no'
    this.#assertShort()
  }

  #endRow(rows: Cell[][], lineBreak: string): void {
    const isEmpty = this.#row.length === 0 && this.#cell === '' && this.#quoted === 'no'
    if (!isEmpty) {
      this.#endCell()
      rows.push(this.#row)
      this.#row = []
      this.lineBreak ??= lineBreak
    }
    this.#begin = this.#line
    this.#length = 0
  }

  #assertShort(): void {
    if (this.#length + this.#cell.length <= MAX_RECORD_LENGTH) return
    const reason = this.#quoted === 'open' ? ': a quote in it is never closed, or closed far behind' : ''
    this.#refuse(`the record is longer than 8 MiB${reason}`, this.#begin)
  }

  #refuse(what: string, line = this.#line): never {
    throw new UsageError(`line ${line}: ${what}`)
  }
}

/** Writes a row. Quotes a cell only if needed, or if it is an empty text. */
export function writeRow(
  cells: readonly Cell[],
  { delimiter, lineBreak }: { delimiter: string; lineBreak: string },
): string {
  const [only] = cells
  if (cells.length === 1 && (only ?? '') === '') return `""${lineBreak}` // an empty line would not be a row
  const quoted = cells.map((cell) =>
    cell === '' || (cell !== null && (/["\r\n]/.test(cell) || cell.includes(delimiter)))
      ? `"${cell.replaceAll('"', '""')}"`
      : (cell ?? ''),
  )
  return quoted.join(delimiter) + lineBreak
}
