// What a test run makes once, in its folder, for all of its files, in all workers.
import { existsSync, mkdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * Returns a folder of the run with what `make` puts there. The first caller makes it, and the others wait.
 * @param runDir the folder of the run
 * @param name the folder's name there
 * @param make is called with a folder that is renamed afterwards. If it fails, its caller gets the error, and the next one tries again
 */
export async function madeOnce(
  runDir: string,
  name: string,
  make: (folder: string) => Promise<unknown>,
): Promise<string> {
  const [made, draft] = [join(runDir, name), join(runDir, `${name}.making`)]
  while (!existsSync(made)) {
    if (!tryCreate(draft)) await sleep(50)
    else
      try {
        // Another caller may have made it between the two checks.
        if (existsSync(made)) break
        await make(draft)
        renameSync(draft, made)
      } finally {
        rmSync(draft, { recursive: true, force: true })
      }
  }
  return made
}

/** Returns false if the folder exists. */
function tryCreate(folder: string): boolean {
  try {
    mkdirSync(folder)
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false
    throw error
  }
}
