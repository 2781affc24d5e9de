/** `inspect`: shows what encrypted data reveals without the service. */
import type { SealedParts, WrappedKey } from '@eaas/protocol'
import {
  decodeEnvelope,
  decodeEnvelopeText,
  decodeStreamHeader,
  findStreamHeaderEnd,
  findWrappedVersion,
  MAX_STREAM_HEADER_BYTES,
  SEALED_SEGMENT_BYTES,
  TAG_BYTES,
} from '@eaas/protocol'
import type { Command } from 'commander'
import { type Content, readContent } from './content.js'
import { openInput } from './files.js'
import { CommandError, type Io, print, tell, USAGE } from './io.js'

interface Inspected {
  format: string
  form: Content['form']
  key_id: string
  key_version?: number
  claimed_key_version?: number
  /** Whether an envelope is bound to a context; a stream does not show it. */
  bound?: boolean
  needs_secret?: true
  ciphertext_bytes?: number
  plaintext_bytes?: number
}

export function addInspect(program: Command, io: Io): void {
  program
    .command('inspect')
    .summary('show key id, version and format of encrypted data, offline')
    .usage('[file] [--json]')
    .description(
      'Shows the format of an encrypted stream, or of the text or the JSON of an envelope, with the id and version of its key. Needs neither the service nor an API key, and shows no secret. Of a stream, only the first line is read. Nothing is verified: only decrypting does that. key_version is the version that wrapped the data key. If the number beside the wrapped key differs, which only tampering causes, claimed_key_version shows it.',
    )
    .argument('[file]')
    .option('--json', 'print JSON')
    .action((file: string | undefined, options: { json?: boolean }) => inspect(io, file, options))
}

async function inspect(io: Io, file: string | undefined, { json }: { json?: boolean }): Promise<void> {
  const input = await openInput(io, file)
  const content = await readContent(input)
  const found = content.form === 'stream' ? inspectStream(content, input.size) : await inspectEnvelope(content)
  input.stream.destroy()
  if (json) await print(io, JSON.stringify(found))
  else await print(io, ...Object.entries(found).map(([name, value]) => `${name.padEnd(20)}${value}`))
  tellDifference(io, found)
}

/** Key versions in encrypted data: that in the wrapped key, which nobody can change, and the unprotected one beside it. */
export interface KeyVersions {
  /** The version that wrapped the data key (wrapped-key.md 1); left out if the wrapped key is of another format. */
  key_version?: number
  /** The number beside the wrapped key, if it differs. Anyone who stores the data can change it. */
  claimed_key_version?: number
}

export function readKeyVersions({ wrapped_key, key_version: claimed }: WrappedKey): KeyVersions {
  const key_version = findWrappedVersion(wrapped_key)
  if (key_version === claimed) return { key_version }
  return { ...(key_version !== undefined && { key_version }), claimed_key_version: claimed }
}

export function tellDifference(io: Io, { key_version, claimed_key_version }: KeyVersions): void {
  if (claimed_key_version === undefined) return
  tell(
    io,
    key_version === undefined
      ? `the wrapped key is of an unknown format: that its version is ${claimed_key_version} stands beside it only`
      : `version ${key_version} wrapped the data key, and not version ${claimed_key_version}, which stands beside it: that number was changed`,
  )
}

export function readFirstLine(head: Uint8Array) {
  const end = findStreamHeaderEnd(head)
  if (end === undefined)
    throw new CommandError(`not an encrypted stream: its first line is longer than ${MAX_STREAM_HEADER_BYTES} bytes`)
  try {
    return { ...decodeStreamHeader(head.subarray(0, end)), end }
  } catch (error) {
    throw new CommandError(`not an encrypted stream: ${(error as Error).message}`) // it names a member, but no content
  }
}

/** Decodes the parts of an envelope, from its text or its JSON. @throws CommandError when it is not one */
export function readEnvelope(text: string): SealedParts {
  try {
    return text.startsWith('{') ? decodeEnvelope(parseJson(text)) : decodeEnvelopeText(text)
  } catch (error) {
    throw new CommandError(`not an envelope: ${(error as Error).message}`, USAGE) // it names a member, but no content
  }
}

function parseJson(text: string): { envelope_version?: unknown } {
  try {
    return JSON.parse(text)
  } catch {
    throw new Error('its JSON is cut or wrong') // the parser's message quotes the text
  }
}

function inspectStream({ form, head }: Content, size: number | undefined): Inspected {
  const { end, ...line } = readFirstLine(head)
  const found = { format: 'eaas/stream/v1', form, key_id: line.key_id, ...readKeyVersions(line), ...secretOf(line) }
  if (size === undefined) return found
  const sealed = size - end
  const segments = Math.max(1, Math.ceil(sealed / SEALED_SEGMENT_BYTES))
  return { ...found, ciphertext_bytes: sealed, plaintext_bytes: Math.max(0, sealed - segments * TAG_BYTES) }
}

function secretOf({ needsSecret }: { needsSecret?: true | undefined }): { needs_secret?: true } {
  return needsSecret ? { needs_secret: true } : {}
}

async function inspectEnvelope(content: Content): Promise<Inspected> {
  const { sealed, commitment, needsSecret, ...wrapped } = readEnvelope(await content.readText())
  return {
    format: commitment ? 'envelope v2' : 'envelope v1',
    form: content.form,
    key_id: wrapped.key_id,
    ...readKeyVersions(wrapped),
    bound: commitment !== undefined,
    ...secretOf({ needsSecret }),
    ciphertext_bytes: sealed.length,
    plaintext_bytes: sealed.length - TAG_BYTES,
  }
}
