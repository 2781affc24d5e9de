/** What the commands say about a file that could not be written. Pure. */

/** An error of a system call of Node.js. */
interface SystemError extends Error {
  code?: string | undefined
  syscall?: string | undefined
}

/**
 * Says that a file or folder was not written, why, and what to do. Rethrows errors from elsewhere, such as from making
 * the text.
 */
export function explainUnwritten(path: string, error: SystemError): string {
  const { code, syscall } = error
  if (code === undefined || syscall === undefined || !isOfFile(code, syscall)) throw error
  const what = `${path} cannot be written (${code}), and nothing was.`
  if (code === 'ENOSPC' || code === 'EDQUOT') return `${what} Its disk is full: make room there, or name another path.`
  return `${what} Name a path in a folder that exists and that you may write to.`
}

/** The system calls that create a file, other than write. */
const CREATING = ['open', 'mkdir', 'fsync', 'link', 'copyfile', 'rename']
/** Error codes that a write to a file can have and a write to a connection cannot. */
const UNWRITTEN = ['ENOSPC', 'EDQUOT', 'EIO', 'EFBIG', 'EROFS']

function isOfFile(code: string, syscall: string): boolean {
  return syscall === 'write' ? UNWRITTEN.includes(code) : CREATING.includes(syscall)
}
