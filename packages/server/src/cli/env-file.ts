/** Reads and sets variables of a file such as `.env.local`, and leaves every other line as it is. */
import { randomUUID } from 'node:crypto'
import { readFile, realpath, rename, rm, stat, writeFile } from 'node:fs/promises'
import { parseEnv } from 'node:util'
import { createFile } from '@eaas/audit/node'

/** Reads the variables of a file; none where there is no file. */
export async function readEnvFile(path: string): Promise<Record<string, string | undefined>> {
  return parseEnv((await readText(path)) ?? '') as Record<string, string>
}

/** Sets variables: replaces the lines that set them, and adds the others at the end. A new file has mode 0600. */
export async function setEnvFile(path: string, values: Readonly<Record<string, string>>): Promise<void> {
  const text = await readText(path)
  if (text === undefined && (await createFile(path, () => withVariables('', values)))) return
  const file = await realpath(path)
  const draft = `${file}.${randomUUID()}.new`
  try {
    await writeFile(draft, withVariables((await readText(path)) ?? '', values), {
      mode: (await stat(file)).mode,
      flag: 'wx',
    })
    await rename(draft, file)
  } finally {
    await rm(draft, { force: true })
  }
}

function withVariables(text: string, values: Readonly<Record<string, string>>): string {
  const isOurs = (line: string) =>
    Object.keys(values).some((name) => new RegExp(`^\\s*(?:export\\s+)?${name}\\s*=`).test(line))
  const others = text.split('\n').filter((line) => !isOurs(line))
  while (others.at(-1) === '') others.pop()
  return [...others, ...Object.entries(values).map(([name, value]) => `${name}=${value}`), ''].join('\n')
}

async function readText(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    return undefined
  }
}
