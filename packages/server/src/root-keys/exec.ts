/** A program that wraps and unwraps, so that the root key never leaves the device or service that the program asks. */
import { ROOT_KEY_VARIABLES } from '../core/config.js'
import { RootKeyError, type RootKeyProvider } from '../core/crypto/root-key.js'
import { runProgram } from './program.js'

const PROGRAM = { what: `The program of ${ROOT_KEY_VARIABLES.exec},` }

/**
 * The provider of a program that is called with `wrap` or `unwrap` as its last argument. The program reads the
 * bytes from its standard input, writes the result to its standard output, and ends with exit code 0, or with 6
 * if a device refused its PIN.
 */
export function execProvider(commandLine: [string, ...string[]]): RootKeyProvider {
  const ask = async (what: 'wrap' | 'unwrap', bytes: Uint8Array) => {
    const answer = await runProgram([...commandLine, what], bytes, PROGRAM)
    if (answer.length === 0) throw new RootKeyError(`${commandLine[0]} ${what} wrote nothing to its standard output.`)
    return answer
  }
  return {
    kind: 'exec',
    name: commandLine[0],
    async wrap(bytes) {
      const wrapped = await ask('wrap', bytes)
      if (!contains(wrapped, bytes)) return wrapped
      throw new RootKeyError(
        `${commandLine[0]} wrap wrote the bytes that it was given, so the store key would stand in the database as it is. Name a program that encrypts them.`,
      )
    },
    unwrap: (wrapped) => ask('unwrap', wrapped),
  }
}

// Raw, in hexadecimal or in base64, on one line or several: a program that only encodes is as wrong as `cat`.
function contains(wrapped: Uint8Array, bytes: Uint8Array): boolean {
  const secret = Buffer.from(bytes)
  const written = Buffer.from(wrapped)
  const text = written.toString('latin1').replaceAll(/\s/g, '')
  const isBase64 = [secret.toString('base64').replace(/=+$/, ''), secret.toString('base64url')].some((form) =>
    text.includes(form),
  )
  return written.includes(secret) || text.toLowerCase().includes(secret.toString('hex')) || isBase64
}
