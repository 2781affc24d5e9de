/** A program that wraps and unwraps, so that the root key never leaves the device or service that it asks. */
import { RootKeyError } from '../crypto/root-key.js'
import { runProgram } from './program.js'
import type { RootKeyProvider } from './provider.js'

/**
 * A program that is called with `wrap` or `unwrap` as one more argument: it reads the bytes from its standard
 * input, writes the others to its standard output, and ends with exit code 0.
 */
export function execProvider(commandLine: [string, ...string[]]): RootKeyProvider {
  const ask = async (what: 'wrap' | 'unwrap', bytes: Uint8Array) => {
    const answer = await runProgram([...commandLine, what], bytes)
    if (answer.length === 0) throw new RootKeyError(`${commandLine[0]} ${what} wrote nothing to its standard output.`)
    return answer
  }
  return {
    kind: 'exec',
    name: commandLine[0],
    wrap: (bytes) => ask('wrap', bytes),
    unwrap: (wrapped) => ask('unwrap', wrapped),
  }
}
