/**
 * Writes and sends the JSON of a long list in stretches, so that no call waits until all of it is written, and counts
 * the memory that it holds.
 */
import { Readable } from 'node:stream'
import type { FastifyReply } from 'fastify'
import type { Paged } from '../api/pages.js'
import { createStretches, ownTurn } from '../event-loop.js'

/** A list with at least this many items is long: in server mode, fewer have 1.4 MB at most. */
const LONG_ITEMS = 16
/** Bytes that are sent at once. */
const PIECE_BYTES = 65_536
/**
 * The bytes held for an answer that is read from the database while it is sent: two pages of it, and what waits for the
 * client.
 */
export const STREAMED_BYTES = 2_097_152

/** Whether an answer has a long list as one of its members. */
export function isLong(answer: unknown): answer is object {
  if (typeof answer !== 'object' || answer === null) return false
  return Object.values(answer).some((member) => Array.isArray(member) && member.length >= LONG_ITEMS)
}

/**
 * Answers with the same headers and bytes as the framework would. `hold` is called with the bytes of the answer, and
 * refuses it by throwing.
 */
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
 * Answers with a list of several pages, which are read while it is sent. A fault in the first two pages is answered as
 * an error; after them, the client only sees that the answer ends too soon. Returns an answer of one page instead of
 * sending it.
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
  const read = [begun, second.value]
  hold(STREAMED_BYTES)
  let count = 0
  async function* counted() {
    for (const page of read) {
      count += page.length
      yield page
    }
    for await (const page of pages) {
      count += page.length
      yield page
    }
  }
  function* members(): Generator<[string, unknown]> {
    yield [name, counted()]
    yield ['count', count] // known by then, because members are written in their order
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
