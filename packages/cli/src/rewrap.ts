/** `rewrap`: has the data key wrapped under the current version of its key. The ciphertext stays as it is. */

import { rewrapStream } from '@eaas/sdk/streams'
import { OUTPUT_OPTIONS, SERVICE_OPTIONS } from './arguments.js'
import { assertReportable, type Command, report } from './command.js'
import { CONNECTION_HELP, withClient } from './connection.js'
import { readContent } from './content.js'
import { openInput } from './files.js'
import { readEnvelope, readFirstLine } from './inspect.js'
import { type KeyVersions, readKeyVersions, tellDifference } from './key-versions.js'
import { assertNoTerminal, openOutput, readOut, writing } from './output.js'
import { showProgress } from './progress.js'
import { pump } from './pump.js'

export const rewrap: Command = {
  summary: 'move encrypted data to the current version of its key',
  help: `Usage: eaas-cli rewrap [file] [options]

Has the data key of an encrypted stream, or of the text or the JSON of an envelope, wrapped under the current version of its key, after a rotation.
The content is not decrypted. The new wrapped key is unwrapped once, and refused unless it gives the same data key. Without --out, the file is
replaced, once the new one is on disk; standard input goes to standard output.

  -o, --out <file>      write here instead; - for standard output
  -f, --force           replace an existing file that --out names; write what is no text to a terminal
  --json                print the result as JSON
${CONNECTION_HELP}`,
  options: { ...SERVICE_OPTIONS, ...OUTPUT_OPTIONS },
  positionals: 1,
  async run(io, given) {
    const [name = '-'] = given.positionals
    const out = readOut(given, () => name)
    assertReportable(given, out)
    const { signal } = io
    await withClient(io, given, { verify: true }, async (eaas) => {
      const input = await openInput(io, name)
      const content = await readContent(input)
      const inPlace = out === name
      const force = given.has('force')
      if (content.form === 'stream') assertNoTerminal(io, out, force)
      const output = await openOutput(io, out, {
        force: force || (inPlace && out !== '-'),
        source: input.stats,
        inPlace,
      })
      const { before, after } = await writing(output, async () => {
        if (content.form === 'stream') {
          let after: KeyVersions | undefined
          await pump(content.bytes, rewrapStream(eaas, { signal }), {
            output,
            progress: showProgress(io, 'copying', { total: input.size }),
            signal,
            onChunk(chunk) {
              after ??= readKeyVersions(readFirstLine(chunk)) // the first chunk is the new line
            },
          })
          return { before: readKeyVersions(readFirstLine(content.head)), after: after ?? {} }
        }
        const text = await content.readText()
        const rewrapped = await eaas.rewrap(text, { signal })
        await output.write(`${rewrapped}\n`)
        return { before: readKeyVersions(readEnvelope(text)), after: readKeyVersions(readEnvelope(rewrapped)) }
      })
      const versionOf = ({ key_version, claimed_key_version }: KeyVersions) => key_version ?? claimed_key_version
      const result = { out, key_version_before: versionOf(before), key_version: versionOf(after) }
      const line = `${out}: key version ${result.key_version_before} -> ${result.key_version}`
      await report(io, { given, out }, result, line)
      tellDifference(io, before)
    })
  },
}
