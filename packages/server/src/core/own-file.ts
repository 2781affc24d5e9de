/**
 * Judges a file by who could have written it, as sshd judges its own: its owner and that of each directory above it must
 * be root or the user of this process, and no other user may write there. A directory like /tmp, whose sticky bit keeps
 * users from replacing each other's files, is accepted too.
 */
import { fstatSync, realpathSync, type Stats, statSync } from 'node:fs'
import { dirname } from 'node:path'

const WRITABLE_BY_OTHERS = 0o022
const STICKY = 0o1000

/** Finds why an open file is not to be trusted, and what to do; undefined if it is, and on Windows. */
export function findForeign(path: string, file: number): string | undefined {
  const user = process.geteuid?.()
  if (user === undefined) return undefined
  const real = realpathSync(path)
  const opened = fstatSync(file)
  const { ino, dev } = statSync(real)
  if (ino !== opened.ino || dev !== opened.dev) return `${path} was replaced while it was read`
  for (let at = real; ; at = dirname(at)) {
    const fault = judge(at, at === real ? opened : statSync(at), user)
    if (fault !== undefined || at === dirname(at)) return fault
  }
}

function judge(path: string, stats: Stats, user: number): string | undefined {
  const { uid, mode } = stats
  if (uid !== 0 && uid !== user) return `${path} belongs to the user ${uid}, who can change it: chown it to root`
  const isSticky = stats.isDirectory() && (mode & STICKY) !== 0
  if ((mode & WRITABLE_BY_OTHERS) === 0 || isSticky) return undefined
  return `other users can write ${path}: chmod go-w`
}
