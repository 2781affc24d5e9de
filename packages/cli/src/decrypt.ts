/** `decrypt`: restores the exact bytes of what `encrypt` made, or of any envelope. */
import { decryptStream } from '@eaas/sdk/streams'
import { OUTPUT_OPTIONS, readContextPairs, SERVICE_OPTIONS } from './arguments.js'
import { assertReportable, type Command, report } from './command.js'
import { CONNECTION_HELP, withClient } from './connection.js'
import { readContent } from './content.js'
import { openInput } from './files.js'
import { openOutput, PRIVATE_MODE, plainName, readOut, writing } from './output.js'
import { showProgress } from './progress.js'
import { pump } from './pump.js'

export const decrypt: Command = {
  summary: 'decrypt a file or standard input to the exact bytes',
  help: `Usage: eaas-cli decrypt [file] [options]

Decrypts an encrypted stream, or the text or the JSON of an envelope, from a file or from standard input. Without --out, <file>.eaas becomes
<file>, and standard input goes to standard output. Only its owner may read the new file (mode 0600), and it gets its name once all of it is authentic.
Standard output gets each part as soon as that is authentic: use it only if the exit code is 0, since the rest may be missing.

  --context <name=value> the context that it was encrypted with. May be repeated
  -o, --out <file>      where to write; - for standard output
  -f, --force           replace an existing file; write what is no text to a terminal
  --json                print the result as JSON
${CONNECTION_HELP}`,
  options: { ...SERVICE_OPTIONS, ...OUTPUT_OPTIONS, context: { type: 'string', multiple: true } },
  positionals: 1,
  async run(io, given) {
    const context = readContextPairs(given.list('context'))
    const [name = '-'] = given.positionals
    const out = readOut(given, () => plainName(name))
    assertReportable(given, out)
    const { signal } = io
    await withClient(io, given, {}, async (eaas) => {
      const input = await openInput(io, name)
      const content = await readContent(input)
      const output = await openOutput(io, out, { force: given.has('force'), mode: PRIVATE_MODE, source: input.stats })
      const bytes = await writing(output, async () => {
        if (content.form === 'stream') {
          const progress = showProgress(io, 'decrypting', { total: input.size })
          const { bytesOut } = await pump(content.bytes, decryptStream(eaas, { context, signal }), {
            output,
            progress,
            signal,
          })
          return bytesOut
        }
        const value = await eaas.decrypt(await content.readText(), { context, signal })
        await output.write(value)
        return value.length
      })
      await report(io, { given, out }, { out, bytes }, `${out}: ${bytes} bytes`)
    })
  },
}
