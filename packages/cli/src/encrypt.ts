/** `encrypt`: a file or standard input, as a stream of any size, or as one envelope. */
import { counted } from '@eaas/protocol'
import { toText } from '@eaas/sdk'
import { encryptStream } from '@eaas/sdk/streams'
import { type Command, Option } from 'commander'
import type { OutputOptions, ServiceOptions } from './arguments.js'
import { addOutputOptions, addServiceOptions, collect, readContextPairs } from './arguments.js'
import { findKeyId, withClient } from './connection.js'
import { streamOf } from './content.js'
import { openInput, readAll } from './files.js'
import { ArgumentsError, type Io } from './io.js'
import { assertNoTerminal, assertReportable, openOutput, readOut, report, sealedName, writing } from './output.js'
import { pump } from './progress.js'

const FORMATS = ['stream', 'text', 'json'] as const
const MAX_VALUE_BYTES = 256 * 1024 * 1024

interface EncryptOptions extends ServiceOptions, OutputOptions {
  key: string
  createKey?: boolean
  context?: string[]
  format: (typeof FORMATS)[number]
  envelope: string
}

export function addEncrypt(program: Command, io: Io): void {
  const command = program
    .command('encrypt')
    .summary('encrypt a file or standard input')
    .usage('[file] --key <name> [options]')
    .description(
      'Encrypts a file, or standard input, in this process. The service only wraps the data key. Without --out, a file becomes <file>.eaas, and standard input goes to standard output. The file gets its name once all is written, and only those who may read the source may read it.',
    )
    .argument('[file]')
    .requiredOption('--key <name>', 'name or id of the key')
    .option('--create-key', 'create the key if there is none of that name')
    .option('--context <name=value>', 'bind to this; decrypting needs the same. May be repeated', collect)
    .addOption(
      new Option('--format <format>', 'stream: any size. text or json: one envelope, for a value up to 256 MiB')
        .choices(FORMATS)
        .default('stream'),
    )
    .addOption(
      new Option('--envelope <version>', 'version of the envelope: 1 is what clients in other languages read')
        .choices(['1', '2'])
        .default('2'),
    )
  addServiceOptions(addOutputOptions(command)).action((file: string | undefined, options: EncryptOptions) =>
    encrypt(io, file, options),
  )
}

async function encrypt(io: Io, name = '-', given: EncryptOptions): Promise<void> {
  const { format, key, force = false } = given
  const context = readContextPairs(given.context)
  const envelope = given.envelope === '1' ? 1 : 2
  if (envelope === 1 && (format === 'stream' || given.context))
    throw new ArgumentsError('--envelope 1 needs --format text or json, and no --context')
  const out = readOut(given, () => sealedName(name))
  assertReportable(given, out)
  if (format === 'stream') assertNoTerminal(io, out, force)
  const { signal } = io
  await withClient(io, given, {}, async (eaas) => {
    const input = await openInput(io, name)
    const output = await openOutput(io, out, { force, source: input.stats })
    const { keyId, bytes } = await writing(output, async () => {
      const keyId = await findKeyId(eaas, key, io, { create: given.createKey ?? false })
      if (format === 'stream') {
        const chunks = (input.stream as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]()
        const source = streamOf(chunks, () => input.stream.destroy())
        const transform = encryptStream(eaas, { keyId, ...context, signal })
        return { keyId, bytes: await pump(io, source, transform, { output, what: 'encrypting', total: input.size }) }
      }
      const value = await readAll({ name, chunks: input.stream }, MAX_VALUE_BYTES)
      const sealed = await eaas.encrypt(value, { keyId, ...context, envelope, signal })
      value.fill(0)
      const text = `${format === 'text' ? toText(sealed) : JSON.stringify(sealed)}\n`
      await output.write(text)
      return { keyId, bytes: text.length }
    })
    const result = { out, format, key_id: keyId, bytes }
    await report(io, { given, out }, result, `${out}: ${counted(bytes, 'byte')}, encrypted under the key ${keyId}`)
  })
}
