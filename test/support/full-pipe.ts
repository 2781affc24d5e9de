// A pipe that takes nothing: it is full, and its reader reads nothing.
import { execFileSync } from 'node:child_process'
import { constants } from 'node:fs'
import { type FileHandle, open } from 'node:fs/promises'
import { expect } from 'vitest'

/** Makes the pipe, and returns its reader: whoever writes waits until that is closed. */
export async function makeFullPipe(path: string): Promise<FileHandle> {
  execFileSync('mkfifo', [path])
  const reader = await open(path, constants.O_RDONLY | constants.O_NONBLOCK)
  const filler = await open(path, constants.O_WRONLY | constants.O_NONBLOCK)
  await expect(filler.appendFile(Buffer.alloc(4 * 1_048_576))).rejects.toThrow('EAGAIN')
  await filler.close()
  return reader
}
