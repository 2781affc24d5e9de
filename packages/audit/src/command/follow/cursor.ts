/** How far a follower has delivered each log: a file that is replaced after each batch. */
import { readFile } from 'node:fs/promises'
import { resolve } from 'node:path'
import { decodeHex, encodeHex, explainUnwritten, isUuid, readJson } from '@eaas/protocol'
import * as z from 'zod/mini'
import { replaceFile } from '../../node/new-file.js'
import { CommandError } from '../files.js'

const FORMAT = 'eaas/audit/cursor/v1'
const HASH = /^[0-9a-f]{64}$/

const cursorSchema = z.strictObject({
  format: z.literal(FORMAT),
  logs: z.array(
    z.strictObject({
      tenant_id: z.string().check(z.refine(isUuid)),
      id: z.int().check(z.gte(0)),
      hash: z.nullable(z.string().check(z.regex(HASH))),
    }),
  ),
})

export type Reached = { id: number; hash: Uint8Array | undefined }

export type Cursor = Map<string, Reached>

/** Reads the file; empty if there is none yet. @throws CommandError if it is not a cursor */
export async function readCursor(path: string): Promise<Cursor> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw new CommandError(`${path}: the cursor cannot be read (${error.code})`)
  })
  if (text === undefined) return new Map()
  const found = parse(text)
  if (found) return found
  throw new CommandError(
    `${path} is no cursor of a follower. Without the file, every entry that the logs still have is delivered again.`,
  )
}

/** Replaces the file; it is on the disk when this resolves. @throws CommandError if it cannot be written */
export async function writeCursor(path: string, cursor: Cursor): Promise<void> {
  const logs = [...cursor].map(([tenant_id, { id, hash }]) => ({ tenant_id, id, hash: hash ? encodeHex(hash) : null }))
  await replaceFile(path, `${JSON.stringify({ format: FORMAT, logs })}\n`).catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(`the cursor ${explainUnwritten(resolve(path), error)}`)
  })
}

function parse(text: string): Cursor | undefined {
  const { data } = cursorSchema.safeParse(readJson(text))
  if (!data) return undefined
  const positions = data.logs.map(({ tenant_id, id, hash }): [string, Reached] => {
    return [tenant_id, { id, hash: hash === null ? undefined : decodeHex(hash) }]
  })
  const cursor: Cursor = new Map(positions)
  return cursor.size === positions.length ? cursor : undefined
}
