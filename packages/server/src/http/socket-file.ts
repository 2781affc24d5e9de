/** The file of a unix socket that the server listens on. */
import { randomBytes } from 'node:crypto'
import { chmodSync, linkSync, lstatSync, renameSync, rmSync } from 'node:fs'
import { answers, ListenError } from '@eaas/audit/node'

/**
 * Makes room for a socket where a process that ended without removing its own left one. Node does not remove it.
 *
 * @throws ListenError if a process listens there, or if it is no socket
 */
export async function claimSocketFile(path: string): Promise<void> {
  const found = lstatSync(path, { throwIfNoEntry: false })
  if (!found) return
  if (!found.isSocket())
    throw new ListenError(`Cannot listen on ${path}: it is no socket. Remove it, or set EAAS_SOCKET to another path.`)
  if (await isTaken(path)) throw inUse(path)
  // Another process may claim it at the same time, and listen by now. So what is removed is first taken aside.
  const aside = `${path}.${randomBytes(8).toString('hex')}`
  renameSync(path, aside)
  if (await isTaken(aside)) {
    linkSync(aside, path)
    rmSync(aside)
    throw inUse(path)
  }
  rmSync(aside)
}

/** Sets who may connect: on Linux, who may write the file. */
export function openSocketFile(path: string, mode: number): void {
  chmodSync(path, mode)
}

function inUse(path: string): ListenError {
  return new ListenError(
    `Cannot listen on ${path}: another process listens there. Stop it, or set EAAS_SOCKET to another path.`,
  )
}

// Whatever else than a refusal happens, as where this user may not connect, somebody may be there.
function isTaken(path: string): Promise<boolean> {
  return answers(path).catch(() => true)
}
