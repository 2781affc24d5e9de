/** Reads a CSV file block by block, and notes its line breaks and byte order mark, to write them again. */
import { counted } from '@eaas/protocol'
import { type Cell, CsvReader } from './csv.js'
import { UsageError } from './io.js'

/** How many rows, and for long rows how much text, are encrypted or decrypted at a time. */
const BLOCK_ROWS = 1_000
const BLOCK_LENGTH = 4 * 1024 * 1024
const BYTE_ORDER_MARK = '\ufeff'

interface Block {
  header: readonly string[]
  /** Undefined in the first block, which is only the header. */
  rows: readonly Cell[][] | undefined
  lineBreak: string
  /** The file's byte order mark, or nothing. */
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
  let rows: Cell[][] = []
  let [mark, begun, count, length] = ['', false, 0, 0]
  const take = function* (more: Cell[][]): Generator<Block, void> {
    const { lineBreak = '\n' } = reader
    for (const row of more) {
      if (header === undefined) {
        header = row.map((name) => name ?? '')
        yield { header, rows: undefined, lineBreak, mark }
        continue
      }
      count++
      if (row.length !== header.length)
        throw new UsageError(`row ${count} has ${counted(row.length, 'cell')}, and the header ${header.length}`)
      rows.push(row)
      for (const cell of row) length += cell?.length ?? 0
      if (rows.length === BLOCK_ROWS || length >= BLOCK_LENGTH) {
        yield { header, rows, lineBreak, mark }
        rows = []
        length = 0
      }
    }
  }
  for await (const chunk of chunks) {
    let part = decode(chunk)
    if (!begun && part !== '') {
      begun = true
      if (part.startsWith(BYTE_ORDER_MARK)) mark = BYTE_ORDER_MARK
      part = part.slice(mark.length)
    }
    yield* take(reader.push(part))
  }
  yield* take([...reader.push(decode()), ...reader.end()])
  if (header === undefined) throw new UsageError('the file has no header line')
  if (rows.length > 0) yield { header, rows, lineBreak: reader.lineBreak ?? '\n', mark }
}
