/** `rewrap`: rewraps the data key under the current version of its key. The ciphertext stays. */
import { rewrapStream } from '@eaas/sdk/streams'
import type { Command } from 'commander'
import type { OutputOptions, ServiceOptions } from './arguments.js'
import { addOutputOptions, addServiceOptions, collect, readContextPairs } from './arguments.js'
import { withClient } from './connection.js'
import { readContent } from './content.js'
import { openInput } from './files.js'
import { type KeyVersions, readEnvelope, readFirstLine, readKeyVersions, tellDifference } from './inspect.js'
import type { Io } from './io.js'
import { assertNoTerminal, assertReportable, openOutput, readOut, report, writing } from './output.js'
import { pump } from './progress.js'

export function addRewrap(program: Command, io: Io): void {
  const command = program
    .command('rewrap')
    .summary('move encrypted data to the current version of its key')
    .usage('[file] [options]')
    .description(
      'Rewraps the data key of an encrypted stream, or of the text or the JSON of an envelope, under the current version of its key, after a rotation. The content is not decrypted. The new wrapped key is unwrapped once, and refused unless it gives the same data key. Without --out, the file is replaced, once the new one is on disk; standard input goes to standard output.',
    )
    .argument('[file]')
    .option('--context <name=value>', 'the context of a value that a model sealed. May be repeated', collect)
  addServiceOptions(addOutputOptions(command)).action((file: string | undefined, options: RewrapOptions) =>
    rewrap(io, file, options),
  )
}

interface RewrapOptions extends ServiceOptions, OutputOptions {
  context?: string[]
}

async function rewrap(io: Io, name = '-', given: RewrapOptions): Promise<void> {
  const context = readContextPairs(given.context)
  const out = readOut(given, () => name)
  assertReportable(given, out)
  const { signal } = io
  await withClient(io, given, { verify: true }, async (eaas) => {
    const input = await openInput(io, name)
    const content = await readContent(input)
    const inPlace = out === name
    const { force = false } = given
    if (content.form === 'stream') assertNoTerminal(io, out, force)
    const output = await openOutput(io, out, { force: force || (inPlace && out !== '-'), source: input.stats, inPlace })
    const { before, after } = await writing(output, async () => {
      if (content.form === 'stream') {
        let after: KeyVersions | undefined
        await pump(io, content.bytes, rewrapStream(eaas, { signal }), {
          output,
          what: 'copying',
          total: input.size,
          onChunk(chunk) {
            after ??= readKeyVersions(readFirstLine(chunk)) // the first chunk holds the new line
          },
        })
        return { before: readKeyVersions(readFirstLine(content.head)), after: after ?? {} }
      }
      const text = await content.readText()
      const rewrapped = await eaas.rewrap(text, { ...context, signal })
      await output.write(`${rewrapped}\n`)
      const versionsIn = (text: string) => readKeyVersions(readEnvelope(text))
      return { before: versionsIn(text), after: versionsIn(rewrapped) }
    })
    const versionOf = ({ key_version, claimed_key_version }: KeyVersions) => key_version ?? claimed_key_version
    const result = { out, key_version_before: versionOf(before), key_version: versionOf(after) }
    const line = `${out}: key version ${result.key_version_before} -> ${result.key_version}`
    await report(io, { given, out }, result, line)
    tellDifference(io, before)
  })
}
