/** Writes and sends the JSON of a long list in stretches, so that no call waits until all of it is written. */
import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import type { Paged } from '../api/pages.js'
import { createStretches, ownTurn } from '../event-loop.js'

/** A list with at least this many items is long: in server mode, shorter ones have 1.4 MB at most. */
const LONG_ITEMS = 16
const PIECE_BYTES = 65_536 // sent at once
/** Held for an answer that is read from the database while it is sent: two pages, and the bytes that wait for the client. */
export const STREAMED_BYTES = 2_097_152

export function isLong(answer: unknown): answer is object {
  if (typeof answer !== 'object' || answer === null) return false
  return Object.values(answer).some((member) => Array.isArray(member) && member.length >= LONG_ITEMS)
}

/** Answers with the headers and bytes of the framework. `hold` gets the length, and may throw to refuse it. */
export async function sendLong(
  reply: FastifyReply,
  answer: object,
  hold: (bytes: number) => void,
): Promise<FastifyReply> {
  const pieces: Buffer[] = []
  for await (const piece of writeJson(Object.entries(answer))) pieces.push(piece)
  const length = pieces.reduce((sum, piece) => sum + piece.length, 0)
  hold(length)
  const [first, ...others] = pieces
  const json = first && others.length === 0 ? first : inTurns(pieces)
  return sendJson(reply.header('content-length', String(length)), json)
}

/**
 * Answers with a list of several pages, which are read while it is sent. After a fault in the third or a later page,
 * the client only sees that the answer ends too soon. Returns an answer of one page instead of sending it.
 */
export async function sendPaged<Answer>(
  reply: FastifyReply,
  { name, pages }: Paged<Answer>,
  hold: (bytes: number) => void,
): Promise<FastifyReply | object> {
  const first = await pages.next()
  const begun = first.done ? [] : first.value
  const second = await pages.next()
  if (second.done) return { [name]: begun, count: begun.length }
  hold(STREAMED_BYTES)
  let count = begun.length + second.value.length
  async function* counted() {
    yield begun
    yield second.value
    for await (const page of pages) {
      count += page.length
      yield page
    }
  }
  function* members(): Generator<[string, unknown]> {
    yield [name, counted()]
    yield ['count', count] // known by now, because members are written in their order
  }
  return sendJson(reply, writeJson(members()))
}

function sendJson(reply: FastifyReply, json: Buffer | AsyncIterable<Buffer>): FastifyReply {
  return reply.type('application/json; charset=utf-8').send(Buffer.isBuffer(json) ? json : Readable.from(json))
}

type Pages = Iterable<readonly unknown[]> | AsyncIterable<readonly unknown[]>

/** The pages of a list; an array is one page. */
function findPages(member: unknown): Pages | undefined {
  if (Array.isArray(member)) return [member]
  return typeof member === 'object' && member !== null && Symbol.asyncIterator in member ? (member as Pages) : undefined
}

async function* writeJson(members: Iterable<readonly [string, unknown]>): AsyncGenerator<Buffer> {
  const pause = createStretches()
  let text = '{'
  let separator = ''
  for (const [name, member] of members) {
    if (member === undefined) continue
    text += `${separator}${JSON.stringify(name)}:`
    separator = ','
    const pages = findPages(member)
    if (!pages) {
      text += JSON.stringify(member)
      continue
    }
    let opening = '['
    for await (const page of pages) {
      for (const item of page) {
        const due = pause()
        if (due) await due
        text += opening + JSON.stringify(item)
        opening = ','
        if (text.length < PIECE_BYTES) continue
        yield Buffer.from(text)
        text = ''
      }
    }
    text += opening === '[' ? '[]' : ']'
  }
  yield Buffer.from(`${text}}`)
}

async function* inTurns(pieces: Buffer[]): AsyncGenerator<Buffer> {
  for (const piece of pieces) {
    yield piece
    await ownTurn()
  }
}
