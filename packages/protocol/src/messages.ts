/** Texts for people: callers' texts in a safe form, counts with nouns, why a file cannot be read or written. Pure. */

/** Invisible characters, those that a terminal obeys or reorders by, unusual blanks, lone surrogates. */
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}/gu
const BLANKS = /^ +| +$| {2,}/g

/** Escapes hidden characters as JSON would, so that different texts look different. */
export function visible(text: string): string {
  return visibleLine(text).replace(BLANKS, escapeUnits)
}

/** As `visible`, for a line of output: keeps plain spaces, and the meaning of a line of JSON. */
export function visibleLine(line: string): string {
  return line.replace(HIDDEN, escapeUnits)
}

function escapeUnits(text: string): string {
  return Array.from({ length: text.length }, (_, at) => {
    return `\\u${text.charCodeAt(at).toString(16).padStart(4, '0')}`
  }).join('')
}

/** Lists texts, and drops those whose condition is false: `listTexts(first, isNew && 'new')`. */
export function listTexts(...texts: readonly (string | readonly string[] | false | undefined)[]): string[] {
  return texts.flat().filter((text) => typeof text === 'string')
}

/** Quotes a word for a POSIX shell if needed. */
export function quoteWord(word: string): string {
  return /^[\w@%+:,./=-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}

/** Writes a count with its noun, as in `1 key` and `2 keys`. */
export function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`
}

export const PATH_REASONS: Readonly<Record<string, string>> = {
  EACCES: 'this user may not open it',
  EISDIR: 'it is a directory, and must be a file',
  ELOOP: 'its symbolic links form a circle',
  ENAMETOOLONG: 'the name is too long',
  ENOENT: 'it does not exist',
  ENOTDIR: 'a part of the path is no directory',
  EPERM: 'this user may not open it',
}

interface SystemError extends Error {
  code?: string | undefined
  syscall?: string | undefined
}

/** Says that a file was not written, why, and what to do. Rethrows errors from elsewhere. */
export function explainUnwritten(path: string, error: SystemError): string {
  const { code, syscall } = error
  if (code === undefined || syscall === undefined || !isOfFile(code, syscall)) throw error
  const what = `${path} cannot be written (${code}), and nothing was.`
  if (code === 'ENOSPC' || code === 'EDQUOT') return `${what} Its disk is full: make room there, or name another path.`
  return `${what} Name a path in a folder that exists and that you may write to.`
}

/** System calls other than write. */
const CREATING = ['open', 'mkdir', 'fsync', 'link', 'copyfile', 'rename']
/** Errors of writes to files that writes to connections cannot have. */
const UNWRITTEN = ['ENOSPC', 'EDQUOT', 'EIO', 'EFBIG', 'EROFS']

function isOfFile(code: string, syscall: string): boolean {
  return syscall === 'write' ? UNWRITTEN.includes(code) : CREATING.includes(syscall)
}
