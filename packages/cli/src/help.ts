/**
 * Lays out help texts for a terminal of 80 columns: paragraphs, and terms with their descriptions beside
 * them.
 */

const WIDTH = 80
const TERM_WIDTH = 26
/** An option, a variable or a command, and what it is. */
const TERM = /^ {2}(?<term>(?:-\w, )?--[\w-]+(?: <[^>]+>)?|[A-Z_]+|[a-z-]+(?= {2})) +(?<text>.*)$/

/**
 * Returns the lines of a help text. A line that begins with many blanks goes on with the description before
 * it.
 */
export function layOut(help: string): string[] {
  const lines: string[] = []
  let paragraph: string[] = []
  const endParagraph = () => {
    lines.push(...wrap(paragraph.join(' '), ''))
    paragraph = []
  }
  for (const line of help.split('\n')) {
    const { term, text = '' } = TERM.exec(line)?.groups ?? {}
    const isOwnLine = term !== undefined || line.trim() === '' || line.startsWith('  ') || /^Usage: |:$/.test(line)
    if (!isOwnLine) {
      paragraph.push(line)
      continue
    }
    endParagraph()
    if (term !== undefined) {
      const [first = '', ...more] = wrap(text, ' '.repeat(TERM_WIDTH))
      lines.push(`  ${term} `.padEnd(TERM_WIDTH) + first.trimStart(), ...more)
    } else if (line.startsWith('  ')) lines.push(...wrap(line.trim(), ' '.repeat(TERM_WIDTH)))
    else if (line.trim() === '') lines.push('')
    else lines.push(...wrap(line, '       ').map((one, at) => (at === 0 ? one.trimStart() : one)))
  }
  endParagraph()
  return lines
}

function wrap(text: string, indent: string): string[] {
  const lines: string[] = []
  let line = indent
  for (const word of text.split(' ').filter((one) => one !== '')) {
    if (line !== indent && line.length + 1 + word.length > WIDTH) {
      lines.push(line)
      line = indent
    }
    line += line === indent ? word : ` ${word}`
  }
  return line === indent ? lines : [...lines, line]
}
