/** Encrypts a command's file to recipients of age before it leaves the process. */
import { CommandError } from '@eaas/audit/command'
import { beforeEnd, createFile, explainUnwritten } from '@eaas/audit/node'
import { encryptTo } from '../age.js'

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
  const release = beforeEnd(() => process.stderr.write(`eaas: interrupted: ${path} was not written\n`))
  let made: Made | undefined
  const isCreated = await createFile(path, async () => {
    made = await make()
    const text = Buffer.from(made.text)
    try {
      return await encrypt(text)
    } finally {
      text.fill(0)
    }
  })
    .catch((error: NodeJS.ErrnoException) => {
      throw new CommandError(explainUnwritten(path, error))
    })
    .finally(release)
  if (isCreated && made) return made
  throw new CommandError(`${path} exists already and was left as it is. Name another path.`)
}
