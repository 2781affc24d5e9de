/** The configuration of a witness: its environment, and the list of logs that it cosigns. */
import { resolve } from 'node:path'
import { CheckpointError, ED25519, type NoteKey, readNoteKey } from '../formats/signed-note.js'
import { LOG_LEVELS, type LogLevel } from '../node/log.js'
import type { LogKeys } from './judge.js'
import { WitnessError } from './state-file.js'

const MAX_PORT = 65_535

export interface WitnessConfig {
  directory: string
  /** base64 of 32 bytes, or a file with it; if neither is set, the file in the directory */
  key: { value: string | undefined; file: string | undefined }
  /** the file that lists the logs; undefined for the one in the directory */
  logs: string | undefined
  host: string
  port: number
  logLevel: LogLevel
  /** unknown variables with the witness's prefix, perhaps misspelt */
  unknownVariables: string[]
}

export const WITNESS_VARIABLES = {
  EAAS_WITNESS_DIR: 'directory of its key, its state and the list of logs (default: .eaas-witness)',
  EAAS_WITNESS_KEY: 'its key, base64 of 32 bytes (default: witness.key in the directory)',
  EAAS_WITNESS_KEY_FILE: 'a file that holds the key instead',
  EAAS_WITNESS_LOGS: 'the file that lists the logs to cosign, one key a line (default: logs in the directory)',
  EAAS_WITNESS_HOST: 'address to listen on (default: 127.0.0.1)',
  EAAS_WITNESS_PORT: 'port to listen on, 0 for any free one (default: 8421)',
  EAAS_LOG_LEVEL: `${LOG_LEVELS.join(', ')} (default: info)`,
} as const satisfies Record<string, string>

/** Reads the configuration. An empty variable counts as unset. @throws WitnessError that names the variable */
export function readWitnessConfig(environment: Readonly<Record<string, string | undefined>>): WitnessConfig {
  const get = (name: keyof typeof WITNESS_VARIABLES) => environment[name] || undefined
  return {
    directory: resolve(get('EAAS_WITNESS_DIR') ?? '.eaas-witness'),
    key: { value: get('EAAS_WITNESS_KEY'), file: get('EAAS_WITNESS_KEY_FILE') },
    logs: get('EAAS_WITNESS_LOGS'),
    host: get('EAAS_WITNESS_HOST') ?? '127.0.0.1',
    port: readPort(get('EAAS_WITNESS_PORT') ?? '8421'),
    logLevel: readLevel(get('EAAS_LOG_LEVEL') ?? 'info'),
    unknownVariables: Object.keys(environment).filter(
      (name) => name.startsWith('EAAS_WITNESS_') && !(name in WITNESS_VARIABLES),
    ),
  }
}

function readPort(text: string): number {
  const port = Number(text)
  if (/^\d+$/.test(text) && port <= MAX_PORT) return port
  throw new WitnessError(`EAAS_WITNESS_PORT must be a whole number from 0 to ${MAX_PORT}, got ${text}`)
}

function readLevel(text: string): LogLevel {
  const level = LOG_LEVELS.find((one) => one === text)
  if (level === undefined) throw new WitnessError(`EAAS_LOG_LEVEL must be one of ${LOG_LEVELS.join(', ')}, got ${text}`)
  return level
}

/**
 * Reads the list of logs to cosign. Each line is a key in C2SP's written form, followed by a space and the log's origin
 * (which may have spaces) unless that is the key's name. Several lines with one origin are keys of one log. Empty lines
 * and lines that begin with `#` are skipped.
 * @throws WitnessError with the number of the line that is wrong, or if the list is empty
 */
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
