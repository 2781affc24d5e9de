/** Reads JSON bodies: only UTF-8, with a limited depth and number of values, and each member of an object once. */
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import {
  type CollectedBytes,
  collectBytes,
  countMembers,
  createBodyHold,
  createPieceCount,
  DETAILS,
  decodeUtf8,
  encodeUtf8,
  type Holding,
  JSON_MEDIA_TYPE,
  MAX_BODY_BYTES,
  TOO_MANY_PIECES,
} from '@eaas/protocol'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { ownTurn } from '../../event-loop.js'
import { Refusal } from '../../runner/refusal.js'
import { createStructureCount, type StructureCount } from './body-bounds.js'

const WHOLE_BYTES = 131_072 // a longer body takes turns with other calls
/** A body that may be longer, such as a batch, is parsed in parts of at most this many bytes: the limit of a single call. */
const PART_BYTES = MAX_BODY_BYTES

/** A Content-Encoding that changes nothing. */
const IDENTITY = /^(?:identity)?$/i

export function readJsonBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(JSON_MEDIA_TYPE, async (request: FastifyRequest, payload: IncomingMessage) => {
    if (!IDENTITY.test(request.headers['content-encoding'] ?? '')) {
      throw new Refusal('E_MEDIA_TYPE', 'the body must not be compressed: send it without Content-Encoding')
    }
    const { holding, routeOptions } = request
    return (await readBody(payload, { limit: routeOptions.bodyLimit, holding })).parse()
  })
  // The media type of an empty body is ignored, because clients send empty bodies in chunks, or as a form without fields.
  app.addContentTypeParser('*', (_: FastifyRequest, payload: IncomingMessage, done: (error: Error | null) => void) => {
    if (payload.errored) return done(payload.errored)
    payload.once('data', () => done(new Refusal('E_MEDIA_TYPE', DETAILS.E_MEDIA_TYPE.body)))
    payload.once('end', () => done(null))
    payload.once('error', done)
  })
}

/** Parses bytes whose structure was counted; returns undefined for none. @throws Refusal E_MALFORMED_REQUEST */
function parseCounted(body: Uint8Array): unknown {
  if (body.length === 0) return undefined
  try {
    return JSON.parse(decodeUtf8(body))
  } catch {
    throw new Refusal('E_MALFORMED_REQUEST', DETAILS.E_MALFORMED_REQUEST.json)
  }
}

/**
 * Reads a body for the log only: `body` is undefined if it is not JSON, too large, or does not arrive. `replay` returns
 * the bytes in case the call continues after all, and throws if they were not read to the end.
 */
export async function peekBody(
  payload: IncomingMessage,
  bounds: Bounds,
): Promise<{ body: unknown; replay: () => Readable }> {
  let read: Body
  try {
    read = await readBody(payload, bounds)
  } catch (error) {
    const replay = () => {
      throw error
    }
    return { body: undefined, replay }
  }
  return { body: parseIfJson(read), replay: () => Readable.from([read.bytes()], { objectMode: false }) }
}

function parseIfJson(read: Body): unknown {
  try {
    return read.parse()
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return undefined
  }
}

interface Bounds {
  limit: number // most bytes of the body
  holding: Holding | null // null for a call that was not admitted, whose body is never read
}

interface Body {
  bytes(): Uint8Array // of a body that is read as a whole
  parse(): unknown // throws Refusal E_MALFORMED_REQUEST
}

/**
 * Reads a body. Gives up as soon as the body is too large or has too many values or pieces, and drops the rest as it
 * arrives. Reads a long body one chunk per turn, and parses it in parts if its limit is higher than that of a part.
 */
function readBody(payload: IncomingMessage, { limit, holding }: Bounds): Promise<Body> {
  return new Promise((resolve, reject) => {
    const collected = collectBytes()
    const isOnePieceTooMany = createPieceCount()
    let structure: StructureCount = createStructureCount()
    let parted: ReturnType<typeof createPartedJson> | undefined
    let length = 0
    const holdBody = holding ? createBodyHold(holding) : () => undefined
    const hold = (bytes: number) => {
      assertSize(bytes, limit)
      holdBody(bytes)
    }
    const fail = (error: unknown) => {
      payload.off('data', read)
      payload.off('end', finish)
      payload.resume()
      reject(error)
    }
    const read = (chunk: Buffer) => {
      length += chunk.length
      try {
        if (isOnePieceTooMany()) throw new Refusal('E_MALFORMED_REQUEST', TOO_MANY_PIECES)
        hold(length)
        structure.add(chunk)
        if (!parted) collected.add(chunk)
        if (length <= WHOLE_BYTES) return
        if (limit > PART_BYTES && !parted) {
          parted = createPartedJson(parseCounted, PART_BYTES)
          structure = parted
          parted.add(collected.bytes())
        }
        payload.pause()
        void ownTurn().then(() => payload.resume())
      } catch (error) {
        fail(error)
      }
    }
    if (payload.errored) return reject(payload.errored) // the client left during admission, so no event follows
    const { bytes } = collected
    const parse = () => {
      const body = parted ? parted.finish() : parseCounted(bytes())
      if (countMembers(body) === structure.members()) return body
      throw new Refusal('E_MALFORMED_REQUEST', DETAILS.E_MALFORMED_REQUEST.repeated)
    }
    const finish = () => resolve({ bytes, parse })
    try {
      hold(Number(payload.headers?.['content-length'] ?? 0)) // before it arrives, so that the whole body of an admitted call has room
    } catch (error) {
      return reject(error)
    }
    payload.on('data', read)
    payload.once('end', finish)
    payload.once('error', reject)
  })
}

function assertSize(length: number, limit: number): void {
  if (length > limit) throw new Refusal('E_BODY_TOO_LARGE', DETAILS.E_BODY_TOO_LARGE.body)
}

const OPENING_BRACE = 0x7b
const OPENING_BRACKET = 0x5b
const ITEM_DEPTH = 3

/**
 * Parses a long body item by item as it arrives, so that no call waits until all of it is parsed. Items are the objects in
 * arrays that are members of the body, such as the operations of a batch. Each is taken out, and an object with its number
 * takes its place. So items and remainder are JSON if and only if the body is. No item is longer than `partBytes`.
 */
export function createPartedJson(parse: (bytes: Uint8Array) => unknown, partBytes: number) {
  const items: unknown[] = []
  const rest = createPart(partBytes)
  let item: ReturnType<typeof createPart> | undefined
  let isBodyObject = false
  let isInList = false
  let chunk: Uint8Array = new Uint8Array(0)
  let from = 0

  const structure = createStructureCount((byte, at, depth) => {
    if (item) {
      if (depth !== ITEM_DEPTH) return
      item.add(chunk.subarray(from, at + 1))
      from = at + 1
      rest.add(encodeUtf8(JSON.stringify({ item: items.length })))
      items.push(parse(item.bytes()))
      item = undefined
    } else if (depth === 1) isBodyObject = byte === OPENING_BRACE
    else if (depth === 2) isInList = isBodyObject && byte === OPENING_BRACKET
    else if (depth === ITEM_DEPTH && isInList && byte === OPENING_BRACE) {
      rest.add(chunk.subarray(from, at))
      from = at
      item = createPart(partBytes)
    }
  })

  return {
    add(bytes: Uint8Array) {
      chunk = bytes
      from = 0
      structure.add(bytes)
      ;(item ?? rest).add(chunk.subarray(from))
    },
    members: structure.members,
    /** Returns the whole body. @throws Refusal E_MALFORMED_REQUEST */
    finish(): unknown {
      const body = parse(rest.bytes())
      if (typeof body !== 'object' || body === null || Array.isArray(body)) return body
      for (const list of Object.values(body)) {
        if (!Array.isArray(list)) continue
        for (const [at, value] of list.entries()) {
          if (typeof value === 'object' && value !== null && !Array.isArray(value)) list[at] = items[value.item]
        }
      }
      return body
    },
  }
}

function createPart(limit: number): Pick<CollectedBytes, 'add' | 'bytes'> {
  const collected = collectBytes()
  let length = 0
  return {
    add(bytes) {
      length += bytes.length
      if (length > limit)
        throw new Refusal('E_BODY_TOO_LARGE', 'a part of the body is larger than a single call accepts')
      collected.add(bytes)
    },
    bytes: collected.bytes,
  }
}
