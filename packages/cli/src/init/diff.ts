/** Shows a change as a unified diff. Most lines are added: what differs is found by reading ahead. */
import { basename } from 'node:path'

const CONTEXT = 3

type Line = { sign: ' ' | '+' | '-'; text: string }

export function unifiedDiff(path: string, before: string | undefined, after: string): string[] {
  const lines = compare(linesOf(before ?? ''), linesOf(after))
  const context = basename(path).startsWith('.env') ? 0 : CONTEXT // its other lines may be secrets
  const isShown = lines.map((_, at) =>
    lines.slice(Math.max(0, at - context), at + context + 1).some(({ sign }) => sign !== ' '),
  )
  const shown = [before === undefined ? '--- /dev/null' : `--- a/${path}`, `+++ b/${path}`]
  let [old, now] = [0, 0]
  for (const [at, { sign, text }] of lines.entries()) {
    if (isShown[at] && !isShown[at - 1]) {
      const end = isShown.indexOf(false, at)
      const hunk = lines.slice(at, end === -1 ? undefined : end)
      const range = (from: number, without: string) => {
        const count = hunk.filter((line) => line.sign !== without).length
        return `${count === 0 ? from : from + 1},${count}`
      }
      shown.push(`@@ -${range(old, '+')} +${range(now, '-')} @@`)
    }
    if (isShown[at]) shown.push(sign + text)
    if (sign !== '+') old++
    if (sign !== '-') now++
  }
  return shown
}

function linesOf(text: string): string[] {
  return text === '' ? [] : text.replace(/\n$/, '').split('\n')
}

function compare(before: readonly string[], after: readonly string[]): Line[] {
  const as = (sign: Line['sign'], texts: readonly string[]) => texts.map((text): Line => ({ sign, text }))
  let end = 0
  while (end < Math.min(before.length, after.length) && before.at(-1 - end) === after.at(-1 - end)) end++
  const changed = after.slice(0, after.length - end)
  const lines: Line[] = []
  let now = 0
  for (const text of before.slice(0, before.length - end)) {
    const found = changed.indexOf(text, now)
    if (found === -1) lines.push({ sign: '-', text })
    else {
      lines.push(...as('+', changed.slice(now, found)), { sign: ' ', text })
      now = found + 1
    }
  }
  return [...lines, ...as('+', changed.slice(now)), ...as(' ', before.slice(before.length - end))]
}
