/** Options that commands share, parsers for their values, and the exit codes of a verification. */
import { foldUuid, isUuid, isWellFormed, MAX_NAME_CHARACTERS, parseRfc3339 } from '@eaas/protocol'
import { Argument, type Command, InvalidArgumentError, Option } from 'commander'
import { CheckpointError } from '../formats/signed-note.js'
import { STANDARD_STREAM } from './files.js'
import { findWitnessKeyFault, readKey } from './kept-file.js'

export const VALID = 0
/** The exit code of a command that could not do its work. */
export const FAILED = 1
export const NOT_VALID = 1
export const USAGE_ERROR = 2
/** The exit code of a verification that could not complete, or had nothing to verify. */
export const NOT_VERIFIED = 3
/** Exit codes of a valid export that proves less than was asked of the command. */
export const PART = 4
export const UNUSED = 5
export const UNTRUSTED_KEY = 6

export const EXIT_CODES = `
Exit codes:
  0  valid and whole, signed by the key that was given, and compared with each checkpoint that was given
  1  not valid
  2  usage error
  3  verification could not complete
  4  PART: valid, but entries are missing at the beginning or at the end
  5  UNUSED: valid, but a checkpoint that was given could not be compared with it
  6  valid, but the key that signed was not given: only the file itself vouches for it, or a statement of the key
     that was given (KEY CHANGED). Compare it with the operator's over another channel, and give it with --public-key
If several of 4 to 6 apply, the highest is the exit code.`

export const JSON_OPTION = new Option('--json', 'print JSON').default(false)
export const KEY_ID_OPTION = new Option(
  '--key-id <id>',
  'only this key, and the API keys that could do anything with it',
).argParser(readId)
export const WITNESS_OPTION = new Option(
  '--witness <key>',
  "the key of a witness that must have cosigned the checkpoint of the installation's log in --checkpoint; may be repeated",
).argParser(readRepeated)

export const CHECKPOINT_OPTION = new Option(
  '--checkpoint <file>',
  'a checkpoint that you kept, of the tenant or the installation: the export must agree with it; may be repeated, the verdict names the newest; needs --public-key',
).argParser(readRepeated)
export const TREE_OPTION = new Option(
  '--tree <name>',
  "what eaas audit public-key --tree printed at any time: the export must be of this installation's log (default: what the key that signed the export states)",
).argParser(readTree)

export function exportsArgument(): Argument {
  return new Argument(
    '<export...>',
    'what eaas audit export wrote, - for standard input; several of one log in the order of their entries',
  )
}

export function describeVariables(variables: Readonly<Record<string, string>>): string {
  const width = Math.max(...Object.keys(variables).map((name) => name.length)) + 2
  const lines = Object.entries(variables).map(([name, meaning]) => `  ${name.padEnd(width)}${meaning}`)
  return `\nEnvironment:\n${lines.join('\n')}`
}

/** Refuses --witness without --checkpoint, and a mistyped key, which would look like a log that no witness saw. */
export function assertWitnessable(command: Command): void {
  const { witness, checkpoint } = command.opts<{ witness?: string[]; checkpoint?: string }>()
  if (witness !== undefined && checkpoint === undefined)
    command.error("error: option '--witness' needs '--checkpoint', a file of checkpoints that the server wrote")
  for (const key of witness ?? []) {
    const fault = findWitnessKeyFault(key)
    if (fault !== undefined) command.error(`error: option '--witness': ${fault}`)
  }
}

/** Like `assertWitnessable`; also refuses --checkpoint without --public-key. */
export function assertComparable(command: Command): void {
  assertWitnessable(command)
  const { publicKey, checkpoint } = command.opts<{ publicKey?: string; checkpoint?: string }>()
  if (checkpoint === undefined || publicKey !== undefined) return
  command.error("error: option '--checkpoint' needs '--public-key', which verifies the checkpoint")
}

/** Reads the key that `--public-key` gives, or the file that contains it; a usage error if it is not a key. */
export async function withKey<Options extends { publicKey?: string | undefined }>(
  options: Options,
  command: Command,
): Promise<Options> {
  if (options.publicKey === undefined) return options
  try {
    return { ...options, publicKey: await readKey(options.publicKey) }
  } catch (error) {
    if (!(error instanceof CheckpointError)) throw error
    return command.error(`error: option '--public-key': ${error.message}`)
  }
}

/** Sets the exit code that `verify` returns. Until then, and if it throws, the code means "could not complete". */
export async function judge(verify: () => Promise<number>): Promise<void> {
  process.exitCode = NOT_VERIFIED
  process.exitCode = await verify()
}

export function readId(text: string): string {
  const id = foldUuid(text)
  if (!isUuid(id)) throw new InvalidArgumentError('It must be a UUID, with dashes.')
  return id
}

export function readTime(text: string): string {
  const time = parseRfc3339(text, 'down')
  if (time === undefined)
    throw new InvalidArgumentError('It must be an RFC 3339 time with an offset, as in 2026-05-03T12:00:00Z.')
  return time
}

/** Reads the key of a tree, or only its name. Returns the name (tree.md 2). */
function readTree(text: string): string {
  const [name = ''] = text.split('+')
  if (!/^eaas\/audit\/tree\/v1\/[0-9a-f]{32}$/.test(name))
    throw new InvalidArgumentError('It must be what eaas audit public-key --tree printed.')
  return name
}

export function readName(text: string): string {
  if (text === '' || [...text].length > MAX_NAME_CHARACTERS || !isWellFormed(text))
    throw new InvalidArgumentError(`It must be 1 to ${MAX_NAME_CHARACTERS} characters.`)
  return text
}

/** Other names of standard output: none of them is a file to create. */
const STANDARD_OUTPUT = [STANDARD_STREAM, '/dev/stdout', '/dev/fd/1', '/proc/self/fd/1']

/** Reads the path of a file that a command creates; `-` for all names of standard output. */
export function readNewFile(text: string): string {
  if (text === '') throw new InvalidArgumentError('Name a file to create, or - for standard output.')
  return STANDARD_OUTPUT.includes(text) ? STANDARD_STREAM : text
}

/** Reads the path of a file that a command reads; `-` is standard input. */
export function readInputFile(text: string): string {
  if (text === '') throw new InvalidArgumentError('Name a file, or - for standard input.')
  return text
}

/** Reads the path of a folder, or of a file that a command keeps or reads again: neither can be a stream. */
export function readKeptPath(text: string): string {
  if (text === '' || text === STANDARD_STREAM)
    throw new InvalidArgumentError('Name a file or folder: a standard stream cannot be used here.')
  return text
}

export const NEW_FILE = 'a new file, mode 0600, - for standard output; a file that exists is left as it is'

export function assertOneOutput(command: Command, paths: readonly (string | undefined)[], { json = false } = {}): void {
  const streams = paths.filter((path) => path === STANDARD_STREAM).length
  if (streams > 1) command.error('error: standard output gets one result: name a file for the others')
  if (streams > 0 && json) command.error("error: option '--json' needs a file to create: standard output has the data")
}

export function readWhole(text: string): number {
  if (!/^\d{1,15}$/.test(text)) throw new InvalidArgumentError('It must be a whole number.')
  return Number(text)
}

export function readRepeated(text: string, before: string[] = []): string[] {
  return [...before, text]
}
