/** `decrypt`: restores the exact bytes from the output of `encrypt`, or from any envelope. */
import { counted } from '@eaas/protocol'
import { decryptStream } from '@eaas/sdk/streams'
import type { Command } from 'commander'
import type { DecryptingOptions, OutputOptions } from './arguments.js'
import { addDecryptingOptions, addOutputOptions, collect, readContextPairs } from './arguments.js'
import { assertOneInput, withClient } from './connection.js'
import { readContent } from './content.js'
import { openInput } from './files.js'
import type { Io } from './io.js'
import { assertReportable, openOutput, PRIVATE_MODE, plainName, readOut, report, writing } from './output.js'
import { pump } from './progress.js'

interface DecryptOptions extends DecryptingOptions, OutputOptions {
  context?: string[]
}

export function addDecrypt(program: Command, io: Io): void {
  const command = program
    .command('decrypt')
    .summary('decrypt a file or standard input to the exact bytes')
    .usage('[file] [options]')
    .description(
      'Decrypts an encrypted stream, or the text or the JSON of an envelope, from a file or from standard input. Without --out, <file>.eaas becomes <file>, and standard input goes to standard output. Only its owner may read the new file (mode 0600), and it gets its name once all of it is authentic. Standard output gets each part as soon as that is authentic: use it only if the exit code is 0, since the rest may be missing.',
    )
    .argument('[file]')
    .option('--context <name=value>', 'the context that it was encrypted with. May be repeated', collect)
  addDecryptingOptions(addOutputOptions(command)).action((file: string | undefined, options: DecryptOptions) =>
    decrypt(io, file, options),
  )
}

async function decrypt(io: Io, name = '-', given: DecryptOptions): Promise<void> {
  const context = readContextPairs(given.context)
  const out = readOut(given, () => plainName(name))
  assertReportable(given, out)
  assertOneInput(name, given)
  const { signal } = io
  await withClient(io, given, {}, async (eaas) => {
    const input = await openInput(io, name)
    const content = await readContent(input)
    const output = await openOutput(io, out, { force: given.force ?? false, mode: PRIVATE_MODE, source: input.stats })
    const bytes = await writing(output, async () => {
      if (content.form === 'stream') {
        const transform = decryptStream(eaas, { ...context, signal })
        return pump(io, content.bytes, transform, { output, what: 'decrypting', total: input.size })
      }
      const value = await eaas.decrypt(await content.readText(), { ...context, signal })
      await output.write(value)
      return value.length
    })
    await report(io, { given, out }, { out, bytes }, `${out}: ${counted(bytes, 'byte')}`)
  })
}
