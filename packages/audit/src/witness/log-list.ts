/**
 * Reads which logs a witness cosigns: one key a line in C2SP's written form, followed, if the log's origin is not the
 * name of the key, by a space and the origin, which may have spaces. Several lines with one origin are keys of one
 * log. Empty lines and lines that begin with `#` are skipped.
 */
import { CheckpointError, ED25519, type NoteKey, readNoteKey } from '../formats/signed-note.js'
import type { LogKeys } from './judge.js'
import { WitnessError } from './state-file.js'

/** Reads the list. @throws WitnessError with the number of the line that is wrong, or if the list is empty */
export function readLogList(text: string, path: string): LogKeys {
  const logs = new Map<string, NoteKey[]>()
  for (const [at, line] of text.split('\n').entries()) {
    const trimmed = line.trim()
    if (trimmed === '' || trimmed.startsWith('#')) continue
    const { key, origin } = readLine(trimmed, `${path}, line ${at + 1}`)
    logs.set(origin, [...(logs.get(origin) ?? []), key])
  }
  if (logs.size > 0) return logs
  throw new WitnessError(
    `${path} lists no log. Add the key of each log to cosign, one a line; that of an installation: eaas audit public-key --tree`,
  )
}

function readLine(line: string, where: string): { key: NoteKey; origin: string } {
  const [, text = '', origin] = /^([^ ]+)(?: +([^\p{Cc}]+))?$/u.exec(line) ?? []
  try {
    const key = readNoteKey(text, ED25519)
    return { key, origin: origin ?? key.name }
  } catch (error) {
    if (!(error instanceof CheckpointError)) throw error
  }
  throw new WitnessError(
    `${where}: not the key of a log, which is <name>+<8 digits>+<base64>, and an origin if that is not the name`,
  )
}
