/** Finds files of secrets that other users of the machine can open. */
import { stat } from 'node:fs/promises'

/** Tells whether every user of the machine can read or change a file. */
export async function isOpenToAll(path: string): Promise<boolean> {
  return ((await stat(path)).mode & 0o006) !== 0
}
