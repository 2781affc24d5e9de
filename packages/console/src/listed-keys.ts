// The keys on an API key's list, as a field of the form shows them: ids, folders and names, one a line or separated by
// commas. A folder with such characters is quoted, as JSON.
import { readJson } from '@eaas/protocol'
import { findKeyId, keys } from './session.js'

/** Reads the ids and folders in the text of the field. @throws SyntaxError if a line with quotes is not a JSON string */
export function readKeys(text: string): string[] {
  return text.split(/[\r\n]/).flatMap((line) => readQuoted(line.trim()) ?? readLines(line).map(findKeyId))
}

/** Writes a key's name only if it is read as this key and nothing else, since callers who create keys choose names. */
export function writeKeys(list: readonly string[]): string {
  return list.map(writeKey).join('\n')
}

function writeKey(item: string): string {
  const isReadAsItem = (text: string) => {
    const read = text.includes('"') ? [] : readKeys(text)
    return read.length === 1 && read[0] === item
  }
  return [keys.value.get(item)?.name ?? item, item].find(isReadAsItem) ?? JSON.stringify(item)
}

// Never splits at commas, since a part of a folder may be another folder.
function readQuoted(line: string): [string] | undefined {
  if (!line.includes('"')) return undefined
  const read = readJson(line)
  if (typeof read === 'string') return [read]
  throw new SyntaxError(`Folders in quotes must stand one a line, such as "a,b/*", got ${line}`)
}

export function readLines(text: string): string[] {
  const lines = text.split(/[\r\n,]/).map((line) => line.trim())
  return lines.filter(Boolean)
}
