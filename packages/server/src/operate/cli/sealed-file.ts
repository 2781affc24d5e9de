/** Writes what a command makes: into a new file, or to standard output; secrets encrypted to recipients of age first. */
import { resolve } from 'node:path'
import { createNewBy, type Sink, STANDARD_STREAM } from '@eaas/audit/command'
import { beforeEnd } from '@eaas/audit/node'
import { encryptTo } from '../../root-keys/age.js'

/** Like `createNewBy`; a signal that ends the command meanwhile says that nothing was written. */
export async function createOut<Made>(
  path: string,
  write: (sink: Sink) => Promise<Made>,
  content?: { isText: boolean },
): Promise<Made> {
  const what = path === STANDARD_STREAM ? 'the result' : resolve(path)
  const release = beforeEnd(() => process.stderr.write(`eaas: interrupted: ${what} was not written\n`))
  return createNewBy(path, write, content).finally(release)
}

/**
 * Creates a file (mode 0600) with an encrypted text. `make` is called only once recipients and path are known to
 * be good: it may leave entries in a log. Returns what it made.
 *
 * @throws RecipientError; CommandError if the path exists already, which is left as it is, or cannot be written
 */
export async function createSealedFile<Made extends { text: string }>(
  path: string,
  recipients: readonly string[],
  make: () => Promise<Made>,
): Promise<Made> {
  const encrypt = await encryptTo(recipients)
  return createOut(path, async (sink) => {
    const made = await make()
    const text = Buffer.from(made.text)
    try {
      await sink.write(await encrypt(text))
    } finally {
      text.fill(0)
    }
    return made
  })
}
