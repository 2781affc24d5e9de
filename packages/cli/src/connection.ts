/**
 * Makes the client of a command: where the service is, and with which API key. Neither is ever an argument.
 */
import { readFile, stat } from 'node:fs/promises'
import { isUuid } from '@eaas/protocol'
import { type Client, createClient } from '@eaas/sdk'
import type { ServiceOptions } from './arguments.js'
import { refusePath, resolvePath } from './files.js'
import { CommandError, type Io, tell, UsageError } from './io.js'

const LOCAL_SERVER = 'http://127.0.0.1:8420'
/** Permissions of a file that let others than its owner read it. */
const READABLE_BY_OTHERS = 0o044

export interface ClientUse {
  /**
   * Whether each new wrapped key is unwrapped once before it is used. For commands that replace the only copy
   * of a value: after a wrong wrapped key it could never be read again. Needs `decrypt` beside `encrypt`.
   */
  verify?: boolean
}

/** Runs a command with a client, and closes it. */
export async function withClient<T>(
  io: Io,
  given: ServiceOptions,
  { verify = false }: ClientUse,
  run: (eaas: Client) => Promise<T>,
): Promise<T> {
  const eaas = createClient({
    baseUrl: baseUrlOf(io),
    apiKey: await readApiKey(io, given.apiKeyFile),
    allowInsecure: given.allowInsecure ?? false,
    fetch: io.fetch,
    deks: { verify },
  })
  try {
    return await run(eaas)
  } finally {
    eaas.close()
  }
}

/** Says which service did not answer, where nobody named one. */
export function tellService(io: Io): void {
  if (io.env.EAAS_BASE_URL) return
  tell(
    io,
    `EAAS_BASE_URL is not set, so the service was looked for on this machine. npx @eaas/server start starts one.`,
  )
}

/** The URL of the service that a command uses. */
export function baseUrlOf({ env }: Io): string {
  return env.EAAS_BASE_URL || LOCAL_SERVER
}

async function readApiKey(io: Io, file: string | undefined): Promise<string> {
  if (file === undefined) {
    if (io.env.EAAS_API_KEY) return io.env.EAAS_API_KEY.trim()
    throw new UsageError('no API key: set EAAS_API_KEY, or pass --api-key-file <file>')
  }
  const path = resolvePath(io, file)
  const text = await readFile(path, 'utf8').catch((error: unknown) => refusePath(file, error))
  const { mode } = await stat(path)
  if ((mode & READABLE_BY_OTHERS) !== 0 && process.platform !== 'win32')
    tell(io, `${file}: other users can read this API key; run chmod 600 on it`)
  if (text.trim() === '') throw new UsageError(`${file}: the file is empty`)
  return text.trim()
}

/**
 * Returns the id of a key by its name or its id.
 *
 * @param create whether one that is not there is created; undefined where the command has no such option
 * @throws CommandError when there is none, or it is not active
 */
export async function findKeyId(eaas: Client, nameOrId: string, io: Io, create?: boolean): Promise<string> {
  if (isUuid(nameOrId)) return nameOrId
  if (create) return (await eaas.keys.ensure({ name: nameOrId }, { signal: io.signal })).id
  const { keys } = await eaas.keys.list({ name: nameOrId, signal: io.signal })
  const key = keys.find(({ name }) => name === nameOrId)
  const remedy =
    create === undefined
      ? ': create it first, with eaas key create or keys.create() of a client'
      : '; --create-key creates it'
  if (!key) throw new CommandError(`there is no key ${JSON.stringify(nameOrId)}${remedy}`)
  if (key.status !== 'active') throw new CommandError(`the key ${JSON.stringify(nameOrId)} is ${key.status}`)
  return key.id
}
