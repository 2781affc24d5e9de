/** Makes a command's client from the service's URL and an API key. Neither is ever an argument. */
import { existsSync } from 'node:fs'
import { readFile, stat } from 'node:fs/promises'
import { foldUuid, isUuid } from '@eaas/protocol'
import { type Client, createClient } from '@eaas/sdk'
import type { DecryptingOptions } from './arguments.js'
import { refusePath, resolvePath } from './files.js'
import { ArgumentsError, CommandError, type Io, tell, UsageError } from './io.js'
import { openKit } from './kit.js'

const LOCAL_SERVER = 'http://127.0.0.1:8420'
const READABLE_BY_OTHERS = 0o044
const SECRET_BYTES = 32

interface ClientUse {
  /** Whether to unwrap each new wrapped key once (needs `unwrap`): a value under a wrong one could never be read. */
  verify?: boolean
  /** Whether the command may work without the service, and so without an API key. */
  mayCallNothing?: boolean
}

export async function withClient<T>(
  io: Io,
  given: DecryptingOptions,
  { verify = false, mayCallNothing = false }: ClientUse,
  run: (eaas: Client) => Promise<T>,
): Promise<T> {
  const secret = given.secretFile !== undefined && { secret: await readSecret(io, given.secretFile) }
  if (given.kit !== undefined) return withKit(io, given.kit, secret, run)
  const { apiKeyFile } = given
  const apiKey = apiKeyFile ? await readPrivate(io, apiKeyFile, 'API key') : io.env.EAAS_API_KEY?.trim() || undefined
  if (apiKey === undefined && !mayCallNothing) throw lacksApiKey(io)
  let isCalled = false
  const refuse = async (): Promise<never> => {
    isCalled = true
    throw lacksApiKey(io)
  }
  const eaas = createClient({
    baseUrl: baseUrlOf(io),
    allowInsecure: given.allowInsecure ?? false,
    ...(apiKey === undefined ? { apiKey: 'none', fetch: refuse, retries: 0 } : { apiKey, fetch: io.fetch }),
    deks: { verify },
    ...secret,
  })
  try {
    return await run(eaas)
  } catch (error) {
    throw isCalled ? lacksApiKey(io) : error
  } finally {
    eaas.close()
  }
}

/** Refuses standard input as both the encrypted data and the kit. @throws ArgumentsError */
export function assertOneInput(name: string, { kit }: DecryptingOptions): void {
  if (kit !== '-' || name !== '-') return
  throw new ArgumentsError('--kit -: standard input is the kit, so name the file that is decrypted')
}

async function withKit<T>(
  io: Io,
  name: string,
  secret: false | { secret: Uint8Array },
  run: (eaas: Client) => Promise<T>,
): Promise<T> {
  const kit = await openKit(io, name)
  const eaas = createClient({ baseUrl: LOCAL_SERVER, apiKey: 'none', fetch: kit.fetch, retries: 0, ...secret })
  try {
    return await run(eaas)
  } catch (error) {
    throw kit.refusal() ?? error
  } finally {
    eaas.close()
    kit.close()
  }
}

/** Says which service did not answer, unless the user named one. */
export function tellService(io: Io): void {
  if (io.env.EAAS_URL) return
  tell(io, `EAAS_URL is not set, so the service was looked for on this machine. npx @eaas/server start starts one.`)
}

export function baseUrlOf({ env }: Io): string {
  return env.EAAS_URL || LOCAL_SERVER
}

function lacksApiKey(io: Io): UsageError {
  const isThere = existsSync(resolvePath(io, '.env.local'))
  const how = isThere ? '. If .env.local has it: set -a; . ./.env.local; set +a' : ''
  return new UsageError(`no API key: set EAAS_API_KEY, or pass --api-key-file <file>${how}`)
}

async function readSecret(io: Io, file: string): Promise<Uint8Array> {
  const text = await readPrivate(io, file, 'secret')
  const bytes = Buffer.from(text, 'base64')
  if (bytes.length === SECRET_BYTES && bytes.toString('base64') === text) return bytes
  throw new UsageError(`${file}: expected the base64 of ${SECRET_BYTES} bytes, as openssl rand -base64 32 makes it`)
}

/** Reads a file that holds only a secret, and warns if other users can read it. */
async function readPrivate(io: Io, file: string, what: string): Promise<string> {
  const path = resolvePath(io, file)
  const text = await readFile(path, 'utf8').catch((error: unknown) => refusePath(file, error))
  const { mode } = await stat(path)
  if ((mode & READABLE_BY_OTHERS) !== 0 && process.platform !== 'win32')
    tell(io, `${file}: other users can read this ${what}; run chmod 600 on it`)
  if (text.trim() === '') throw new UsageError(`${file}: the file is empty`)
  if (/\s/.test(text.trim())) throw new UsageError(`${file}: it must hold nothing but the ${what}, on one line`)
  return text.trim()
}

export interface KeyUse {
  /** whether to create a missing key; undefined if the command lacks the option */
  create?: boolean | undefined
  /** whether the command only decrypts, for which a disabled key is enough */
  decrypts?: boolean | undefined
}

/** Finds a key by name or id. Returns its id. @throws CommandError if there is none, or its status forbids the use */
export async function findKeyId(
  eaas: Client,
  nameOrId: string,
  io: Io,
  { create, decrypts = false }: KeyUse = {},
): Promise<string> {
  const id = foldUuid(nameOrId)
  if (isUuid(id)) return id
  if (create) return (await eaas.keys.ensure({ name: nameOrId }, { signal: io.signal })).id
  const { keys } = await eaas.keys.list({ name: nameOrId, signal: io.signal })
  const key = keys.find(({ name }) => name === nameOrId)
  const remedy =
    create === undefined
      ? ': create it first, with eaas key create or keys.create() of a client'
      : '; --create-key creates it'
  if (!key) throw new CommandError(`there is no key ${JSON.stringify(nameOrId)}${remedy}`)
  const { status } = key
  if (status === 'active' || (decrypts && status === 'disabled')) return key.id
  throw new CommandError(`the key ${JSON.stringify(nameOrId)} is ${status}${REMEDIES[status] ?? ''}`)
}

const REMEDIES: Readonly<Record<string, string>> = {
  disabled: ': enable it first, with eaas key enable or keys.enable() of a client',
  pending_destruction:
    ': cancel its destruction first, with eaas key cancel-destruction or keys.cancelDestruction() of a client',
}
