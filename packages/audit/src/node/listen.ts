/** Addresses: listens on the configured one, or says what to do, and tells which are on this machine. */
import type { Server } from 'node:net'

/** Thrown when listening on an address fails; the message says what to do. */
export class ListenError extends Error {
  override readonly name = 'ListenError'
}

interface Address {
  host: string
  port: number
}

/**
 * Listens; resolves when connections are accepted. `variables` name the address in the error. @throws
 * ListenError
 */
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

/** Adds to an error of listening what to do about it; returns the error itself if that is unknown. */
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

/** Whether the server of a URL with this host name is on this machine, so that no one in between can read requests. */
export function isLoopback(hostname: string): boolean {
  return LOOPBACK.includes(hostname)
}
