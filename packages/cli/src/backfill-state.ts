/** How far a run of `backfill` got: a file that is never partly written, even if the process is killed. */
import { readFile, unlink } from 'node:fs/promises'
import { readJson } from '@eaas/protocol'
import { refusePath, resolvePath } from './files.js'
import { type Io, UsageError } from './io.js'
import { openOutput, PRIVATE_MODE, writing } from './output.js'

const FORMAT = 'eaas/backfill-state/1'
const COUNTS = ['rows', 'changed', 'current', 'failed', 'gone'] as const

/** The counts of all runs together, for the rows up to the key. */
type DoneCounts = Record<(typeof COUNTS)[number], number>

export type Stand = { after: string; done: DoneCounts }

/** @param run identifies the file's run: another table, work or database must not continue it. @throws UsageError */
export async function openState(io: Io, file: string, run: Readonly<Record<string, unknown>>) {
  const path = resolvePath(io, file)
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    return refusePath(file, error)
  })
  return {
    found: text === undefined ? undefined : readStand(text, run, file),
    async save({ after, done }: Stand) {
      const output = await openOutput(io, file, { force: true, mode: PRIVATE_MODE })
      await writing(output, () => output.write(`${JSON.stringify({ format: FORMAT, run, after, done })}\n`))
    },
    async clear() {
      await unlink(path).catch((error: NodeJS.ErrnoException) => {
        if (error.code !== 'ENOENT') throw error // it did not exist
      })
    },
  }
}

function readStand(text: string, run: Readonly<Record<string, unknown>>, file: string): Stand {
  const remedy = 'Remove it to begin at the first row: rows that are done cost reading only.'
  const { format, run: before, after, done } = Object(readJson(text)) as Record<string, unknown>
  if (format !== FORMAT || typeof after !== 'string' || !isDone(done))
    throw new UsageError(`${file}: it is no state of a backfill. ${remedy}`)
  const different = differences(before, run)
  if (different.length > 0)
    throw new UsageError(`${file}: it belongs to another run: ${different.join('; ')}. ${remedy}`)
  return { after, done }
}

/** Names the members that differ between two runs, with the earlier values. */
function differences(before: unknown, now: Readonly<Record<string, unknown>>, path = ''): string[] {
  const was: Readonly<Record<string, unknown>> = Object(before)
  return [...new Set([...Object.keys(was), ...Object.keys(now)])].flatMap((name) => {
    const text = JSON.stringify(was[name])
    if (text === JSON.stringify(now[name])) return []
    if (name === 'model') return differences(was[name], Object(now[name]), 'model.')
    return [`${path}${name} was ${text ?? 'not kept'}`]
  })
}

function isDone(value: unknown): value is DoneCounts {
  const counts = (value ?? {}) as Record<string, unknown>
  return COUNTS.every((name) => Number.isSafeInteger(counts[name]) && Number(counts[name]) >= 0)
}

export function addCounts(before: DoneCounts | undefined, more: DoneCounts): DoneCounts {
  const sums = COUNTS.map((name) => [name, (before?.[name] ?? 0) + more[name]])
  return Object.fromEntries(sums) as DoneCounts
}
