/** Writes and sends the JSON of a long list in stretches, so that no call waits until all of it is written. */
import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import { createStretches, ownTurn } from '../event-loop.js'

/** A list with at least this many items is long: in server mode, fewer have 1.4 MB at most. */
const LONG_ITEMS = 16
/** Bytes that are sent at once. */
const PIECE_BYTES = 65_536

/** Whether an answer has a long list as one of its members. */
export function isLong(answer: unknown): answer is object {
  if (typeof answer !== 'object' || answer === null) return false
  return Object.values(answer).some((member) => Array.isArray(member) && member.length >= LONG_ITEMS)
}

/** Answers with the same headers and bytes as the framework would. */
export async function sendLong(reply: FastifyReply, answer: object): Promise<FastifyReply> {
  const pieces = await writeJson(answer)
  return reply
    .type('application/json; charset=utf-8')
    .header('content-length', String(pieces.reduce((sum, { length }) => sum + length, 0)))
    .send(Readable.from(inTurns(pieces)))
}

async function writeJson(answer: object): Promise<Buffer[]> {
  const pieces: Buffer[] = []
  const pause = createStretches()
  let text = '{'
  let separator = ''
  for (const [name, member] of Object.entries(answer)) {
    if (member === undefined) continue
    text += `${separator}${JSON.stringify(name)}:`
    separator = ','
    if (!Array.isArray(member)) {
      text += JSON.stringify(member)
      continue
    }
    let opening = '['
    for (const item of member) {
      const due = pause()
      if (due) await due
      text += opening + JSON.stringify(item)
      opening = ','
      if (text.length < PIECE_BYTES) continue
      pieces.push(Buffer.from(text))
      text = ''
    }
    text += opening === '[' ? '[]' : ']'
  }
  pieces.push(Buffer.from(`${text}}`))
  return pieces
}

async function* inTurns(pieces: Buffer[]): AsyncGenerator<Buffer> {
  for (const piece of pieces) {
    yield piece
    await ownTurn()
  }
}
