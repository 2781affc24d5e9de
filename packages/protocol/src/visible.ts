/** Makes names that callers choose safe to read for operators. Letters that look alike stay. Pure. */

/** What is invisible, what a terminal obeys or reorders by, blanks of other kinds, lone surrogates. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}/gu
const BLANKS = /^ +| +$| {2,}/g

/** Escapes what is hidden in a text as JSON would, so that two texts that differ look different. */
export function visible(text: string): string {
  return visibleLine(text).replace(BLANKS, escapeUnits)
}

/** Does the same for a line of output, but keeps its plain spaces. A line of JSON keeps its meaning. */
export function visibleLine(line: string): string {
  return line.replace(HIDDEN, escapeUnits)
}

function escapeUnits(text: string): string {
  return Array.from({ length: text.length }, (_, at) => {
    return `\\u${text.charCodeAt(at).toString(16).padStart(4, '0')}`
  }).join('')
}

/** Lists texts without those that have a condition which is false: `listTexts(first, isNew && 'new')`. */
export function listTexts(...texts: readonly (string | readonly string[] | false | undefined)[]): string[] {
  return texts.flat().filter((text) => typeof text === 'string')
}

/** Quotes a word for a POSIX shell if needed. */
export function quoteWord(word: string): string {
  return /^[\w@%+:,./=-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}

/** Writes a number of things, as in `1 key` and `2 keys`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`
}
