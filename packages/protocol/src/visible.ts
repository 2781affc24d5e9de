/**
 * Text of others as people read it: callers choose the names of keys, API keys and users, operators and auditors tell
 * them apart by what they see. Letters that look alike, as those of two scripts do, stay as they are. Pure.
 */

/** Characters that are not seen, that a terminal obeys, or that show others in another order; blanks of other kinds; lone surrogates. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}/gu

/** Blanks at an end, and several in a row. */
const BLANKS = /^ +| +$| {2,}/g

/** Writes what is hidden in a text as JSON would escape it: two texts that differ look different. */
export function visible(text: string): string {
  return visibleLine(text).replace(BLANKS, escapeUnits)
}

/** Does so for a line of output, whose blanks are its own. A line of JSON keeps its meaning. */
export function visibleLine(line: string): string {
  return line.replace(HIDDEN, escapeUnits)
}

/** Each UTF-16 code unit, as RFC 8259 has it. */
function escapeUnits(text: string): string {
  return Array.from({ length: text.length }, (_, at) => {
    return `\\u${text.charCodeAt(at).toString(16).padStart(4, '0')}`
  }).join('')
}
