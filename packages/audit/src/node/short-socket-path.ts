// Names a unix socket in a deep directory by a path short enough for the kernel.

import { mkdtempSync, realpathSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** `sun_path` is 104 bytes on macOS and the BSDs, 108 on Linux (unix(7)), with the closing NUL. */
const MAX_SOCKET_PATH_BYTES = 103

const shortNames = new Map<string, string>()

/**
 * Returns a path of at most 103 bytes to `directory/name`. If the plain path is too long, the result leads through a
 * symlink in a directory of this process (mode 0700, removed at exit) under the temporary directory. The socket
 * itself stays with the data, where other processes and containers find it.
 *
 * @throws Error when the temporary directory's own path is too long.
 */
export function shortSocketPath(directory: string, name: string): string {
  const plain = join(directory, name)
  if (Buffer.byteLength(plain) <= MAX_SOCKET_PATH_BYTES) return plain

  const short = join(shortNameOf(realpathSync(directory)), name)
  if (Buffer.byteLength(short) > MAX_SOCKET_PATH_BYTES) {
    throw new Error(
      `The path of the unix socket must be at most ${MAX_SOCKET_PATH_BYTES} bytes, got ${Buffer.byteLength(plain)} ` +
        `(${plain}), and ${short} is too long as well. Choose a shorter data directory, or a shorter TMPDIR.`,
    )
  }
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
