/** The file of a unix socket that the server listens on. */
import { randomBytes } from 'node:crypto'
import { linkSync, lstatSync, renameSync, rmSync } from 'node:fs'
import { answers, ListenError } from '@eaas/audit/node'

/** Removes the socket that a killed process left. @throws ListenError if a process listens there, or it is no socket */
export async function claimSocketFile(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (!found) return
  if (!found.isSocket())
    throw new ListenError(`Cannot listen on ${path}: it is no socket. Remove it, or set EAAS_SOCKET to another path.`)
  if (await isTaken(path)) throw inUse(path)
  // Another process may claim the path at the same time, and listen by now: so the file is moved aside first.
  const aside = `${path}.${randomBytes(8).toString('hex')}`
  renameSync(path, aside)
  if (await isTaken(aside)) {
    linkSync(aside, path)
    rmSync(aside)
    throw inUse(path)
  }
  rmSync(aside)
}

function inUse(path: string): ListenError {
  return new ListenError(
    `Cannot listen on ${path}: another process listens there. Stop it, or set EAAS_SOCKET to another path.`,
  )
}

// On any error but a refused connection, such as a missing permission to connect, a process may be listening.
function isTaken(path: string): Promise<boolean> {
  return answers(path).catch(() => true)
}
