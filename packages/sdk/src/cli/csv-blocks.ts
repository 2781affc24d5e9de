/** Reads a CSV file block by block, with what writing it again takes: its line breaks and its byte order mark. */
import { CsvReader } from './csv.js'
import { UsageError } from './io.js'

/** Rows that are encrypted, or decrypted, at a time. */
const BLOCK_ROWS = 1_000
const BYTE_ORDER_MARK = '\ufeff'

/** A part of a CSV file. */
export interface Block {
  header: readonly string[]
  /** Undefined of the first block, which is the header alone. */
  rows: readonly string[][] | undefined
  lineBreak: string
  /** The byte order mark with which the file begins, or nothing. */
  mark: string
}

/** Reads a CSV file: its header first, then up to 1,000 rows at a time. @throws UsageError */
export async function* readBlocks(chunks: AsyncIterable<Uint8Array>, delimiter: string): AsyncGenerator<Block, void> {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  const decode = (chunk?: Uint8Array) => {
    try {
      return decoder.decode(chunk, { stream: chunk !== undefined })
    } catch {
      throw new UsageError('the file is not UTF-8')
    }
  }
  const reader = new CsvReader(delimiter)
  let header: readonly string[] | undefined
  let rows: string[][] = []
  let [lineBreak, mark, begun, count] = ['\n', '', false, 0]
  const take = function* (more: string[][]): Generator<Block, void> {
    for (const row of more) {
      if (header === undefined) {
        header = row
        yield { header, rows: undefined, lineBreak, mark }
        continue
      }
      count++
      if (row.length !== header.length)
        throw new UsageError(`row ${count} has ${row.length} cells, and the header ${header.length}`)
      rows.push(row)
      if (rows.length === BLOCK_ROWS) {
        yield { header, rows, lineBreak, mark }
        rows = []
      }
    }
  }
  for await (const chunk of chunks) {
    let part = decode(chunk)
    if (!begun && part !== '') {
      begun = true
      if (part.startsWith(BYTE_ORDER_MARK)) mark = BYTE_ORDER_MARK
      part = part.slice(mark.length)
      if (/^[^\n]*\r\n/.test(part)) lineBreak = '\r\n'
    }
    yield* take(reader.push(part))
  }
  yield* take([...reader.push(decode()), ...reader.end()])
  if (header === undefined) throw new UsageError('the file has no header line')
  if (rows.length > 0) yield { header, rows, lineBreak, mark }
}
