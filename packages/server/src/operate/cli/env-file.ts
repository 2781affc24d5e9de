/** Reads and sets variables of a file such as `.env.local`, and leaves every other line as it is. */
import { existsSync } from 'node:fs'
import { readFile, realpath } from 'node:fs/promises'
import { parseEnv } from 'node:util'
import { createFile, replaceFile } from '@eaas/audit/node'

export async function readEnvFile(path: string): Promise<Record<string, string | undefined>> {
  return parseEnv(await readIfThere(path)) as Record<string, string>
}

export async function readIfThere(path: string): Promise<string> {
  return existsSync(path) ? readFile(path, 'utf8') : ''
}

/** Sets variables in ASCII, at the end instead of where they were. Then only the owner may read the file. */
export async function setEnvFile(path: string, values: Readonly<Record<string, string>>): Promise<void> {
  if (!existsSync(path) && (await createFile(path, () => withVariables('', values)))) return
  const file = await realpath(path)
  const text = withVariables(await readFile(file, BYTES), values)
  await replaceFile(file, Buffer.from(text, BYTES))
}

const BYTES = 'latin1' // one character for each byte, whatever the file's encoding

function withVariables(text: string, values: Readonly<Record<string, string>>): string {
  const isOurs = (line: string) =>
    Object.keys(values).some((name) => new RegExp(`^\\s*(?:export\\s+)?${name}\\s*=`).test(line))
  const others = text.split('\n').filter((line) => !isOurs(line))
  while (others.at(-1) === '') others.pop()
  return [...others, ...Object.entries(values).map(([name, value]) => `${name}=${value}`), ''].join('\n')
}
