/** `encrypt`: a file or standard input, as a stream of any size, or as one envelope. */
import { toText } from '@eaas/sdk'
import { encryptStream } from '@eaas/sdk/streams'
import { OUTPUT_OPTIONS, readContextPairs, SERVICE_OPTIONS } from './arguments.js'
import { assertReportable, type Command, report } from './command.js'
import { CONNECTION_HELP, findKeyId, withClient } from './connection.js'
import { streamOf } from './content.js'
import { openInput, readAll } from './files.js'
import { ArgumentsError } from './io.js'
import { assertNoTerminal, openOutput, readOut, sealedName, writing } from './output.js'
import { showProgress } from './progress.js'
import { pump } from './pump.js'

const FORMATS = ['stream', 'text', 'json']
/** The longest plaintext of one envelope. */
const MAX_VALUE_BYTES = 256 * 1024 * 1024

export const encrypt: Command = {
  summary: 'encrypt a file or standard input',
  help: `Usage: eaas-cli encrypt [file] --key <name> [options]

Encrypts a file, or standard input, in this process. The service only wraps the data key. Without --out, a file becomes <file>.eaas, and
standard input goes to standard output. The file gets its name once all is written, and nobody may read it who may not
read the source.

  --key <name>          name or id of the key
  --create-key          create the key if there is none of that name
  --context <name=value> bind to this; decrypting needs the same. May be repeated
  --format <format>     stream (default): any size. text or json: one envelope, for a value up to 256 MiB
  -o, --out <file>      where to write; - for standard output
  -f, --force           replace an existing file; write what is no text to a terminal
  --json                print the result as JSON
${CONNECTION_HELP}`,
  options: {
    ...SERVICE_OPTIONS,
    ...OUTPUT_OPTIONS,
    key: { type: 'string' },
    'create-key': { type: 'boolean' },
    context: { type: 'string', multiple: true },
    format: { type: 'string' },
  },
  positionals: 1,
  async run(io, given) {
    const format = given.find('format') ?? 'stream'
    if (!FORMATS.includes(format)) throw new ArgumentsError(`--format must be one of ${FORMATS.join(', ')}`)
    const key = given.get('key')
    const context = readContextPairs(given.list('context'))
    const [name = '-'] = given.positionals
    const out = readOut(given, () => sealedName(name))
    const force = given.has('force')
    assertReportable(given, out)
    if (format === 'stream') assertNoTerminal(io, out, force)
    const { signal } = io
    await withClient(io, given, {}, async (eaas) => {
      const input = await openInput(io, name)
      const output = await openOutput(io, out, { force, source: input.stats })
      const { keyId, bytesOut } = await writing(output, async () => {
        const keyId = await findKeyId(eaas, key, io, given.has('create-key'))
        if (format === 'stream') {
          const chunks = (input.stream as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]()
          const source = streamOf(chunks, () => input.stream.destroy())
          const progress = showProgress(io, 'encrypting', { total: input.size })
          const { bytesOut } = await pump(source, encryptStream(eaas, { keyId, context, signal }), {
            output,
            progress,
            signal,
          })
          return { keyId, bytesOut }
        }
        const value = await readAll({ name, chunks: input.stream }, MAX_VALUE_BYTES)
        const envelope = await eaas.encrypt(value, { keyId, context, signal })
        value.fill(0)
        const text = `${format === 'text' ? toText(envelope) : JSON.stringify(envelope)}\n`
        await output.write(text)
        return { keyId, bytesOut: text.length }
      })
      const result = { out, format, key_id: keyId, bytes: bytesOut }
      await report(io, { given, out }, result, `${out}: ${bytesOut} bytes, encrypted under the key ${keyId}`)
    })
  },
}
