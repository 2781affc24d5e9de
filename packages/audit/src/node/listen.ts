/** Listens on a configured address, or says what to do; recognises local addresses; shortens the path of a socket. */
import { mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs'
import type { Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export class ListenError extends Error {
  override readonly name = 'ListenError'
}

type Address = { host: string; port: number }

/** Listens; resolves when connections are accepted. `variables` name the address in the error. @throws ListenError */
export async function listenOn(
  server: Server,
  address: Address,
  variables: Record<keyof Address, string>,
): Promise<void> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(address, () => {
      server.off('error', reject)
      resolve()
    })
  }).catch((error: unknown) => {
    throw explainListening(error, address, variables)
  })
}

/** Adds to a listening error what to do about it; returns the error itself if that is unknown. */
export function explainListening(
  error: unknown,
  { host, port }: Address,
  variables: Record<keyof Address, string>,
): unknown {
  const { code = '' } = error as NodeJS.ErrnoException
  const remedy = {
    EADDRINUSE: `another program listens there. Stop it, or set ${variables.port} to another port`,
    EACCES: `this user may not use that port. Set ${variables.port} to 1024 or higher, and put a proxy in front`,
    EADDRNOTAVAIL: `this machine does not have that address. Set ${variables.host} to one that it has, or to 0.0.0.0 for all`,
    ENOTFOUND: `there is no host with that name. Set ${variables.host} to an address of this machine`,
  }[code]
  return remedy === undefined ? error : new ListenError(`Cannot listen on ${host}, port ${port} (${code}): ${remedy}.`)
}

const LOOPBACK = ['127.0.0.1', '[::1]', 'localhost']

/** Whether a URL's host is this machine, so that nobody in between can read requests. */
export function isLoopback(hostname: string): boolean {
  return LOOPBACK.includes(hostname)
}

/** `sun_path` takes 104 bytes on macOS and the BSDs, 108 on Linux (unix(7)), including the final NUL. */
const MAX_SOCKET_PATH_BYTES = 103

const shortNames = new Map<string, string>()

/**
 * Returns a path of at most 103 bytes to `directory/name`. If the plain path is longer, the result leads through a
 * symlink in a directory of this process (mode 0700, removed at exit) under the temporary directory. The socket itself
 * stays with the data, where other processes and containers find it.
 * @throws Error when the temporary directory's own path is too long.
 */
export function shortSocketPath(directory: string, name: string): string {
  const plain = join(directory, name)
  if (Buffer.byteLength(plain) <= MAX_SOCKET_PATH_BYTES) return plain

  const short = join(shortNameOf(realpathSync(directory)), name)
  if (Buffer.byteLength(short) > MAX_SOCKET_PATH_BYTES)
    throw new Error(
      `The path of the unix socket must be at most ${MAX_SOCKET_PATH_BYTES} bytes, got ${Buffer.byteLength(plain)} ` +
        `(${plain}), and ${short} is too long as well. Choose a shorter data directory, or a shorter TMPDIR.`,
    )
  return short
}

function shortNameOf(directory: string): string {
  const known = shortNames.get(directory)
  if (known) return known

  const own = mkdtempSync(join(tmpdir(), 'eaas-'))
  const link = join(own, 'd')
  symlinkSync(directory, link)
  process.once('exit', () => rmSync(own, { recursive: true, force: true }))
  shortNames.set(directory, link)
  return link
}
