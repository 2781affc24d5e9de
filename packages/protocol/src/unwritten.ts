/** What the commands say about a file that could not be read or written. Pure. */

export const PATH_REASONS: Readonly<Record<string, string>> = {
  EACCES: 'this user may not open it',
  EISDIR: 'it is a directory, and must be a file',
  ELOOP: 'its symbolic links form a circle',
  ENAMETOOLONG: 'the name is too long',
  ENOENT: 'it does not exist',
  ENOTDIR: 'a part of the path is no directory',
  EPERM: 'this user may not open it',
}

interface SystemError extends Error {
  code?: string | undefined
  syscall?: string | undefined
}

/** Says that a file was not written, why, and what to do. Rethrows errors from elsewhere. */
export function explainUnwritten(path: string, error: SystemError): string {
  const { code, syscall } = error
  if (code === undefined || syscall === undefined || !isOfFile(code, syscall)) throw error
  const what = `${path} cannot be written (${code}), and nothing was.`
  if (code === 'ENOSPC' || code === 'EDQUOT') return `${what} Its disk is full: make room there, or name another path.`
  return `${what} Name a path in a folder that exists and that you may write to.`
}

/** Other than write. */
const CREATING = ['open', 'mkdir', 'fsync', 'link', 'copyfile', 'rename']
/** Which a write to a file can have and a write to a connection cannot. */
const UNWRITTEN = ['ENOSPC', 'EDQUOT', 'EIO', 'EFBIG', 'EROFS']

function isOfFile(code: string, syscall: string): boolean {
  return syscall === 'write' ? UNWRITTEN.includes(code) : CREATING.includes(syscall)
}
