// The commands and statements of the server's guides, for the tests that run them unchanged.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './source-files.js'

/** Reads a page of packages/server/docs. */
export function readGuide(page: string): string {
  return readFileSync(join(ROOT, 'packages/server/docs', page), 'utf8')
}

/** Finds the lines of the one block of shell commands of a page that has this text. */
export function shellOf(page: string, text: string): string[] {
  const blocks = [...readGuide(page).matchAll(/^```sh\n(.*?)^```$/gms)].map(([, block = '']) => block)
  const found = blocks.filter((block) => block.includes(text))
  if (found.length !== 1) throw new Error(`${found.length} blocks of ${page} have ${text}, and one should`)
  return found[0]?.trimEnd().split('\n') ?? []
}

/** Finds the block of a page that begins with this text. */
export function blockOf(page: string, start: string): string {
  const [, text] = new RegExp(`^\`\`\`\\w*\\n(${start}.*?)^\`\`\``, 'ms').exec(readGuide(page)) ?? []
  if (text === undefined) throw new Error(`${page} has no block that begins with ${start}`)
  return text
}
