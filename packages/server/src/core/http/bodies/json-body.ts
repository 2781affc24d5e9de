/**
 * Reads JSON bodies: only UTF-8, with a limited depth and number of values, and each member of an object once; an empty
 * body where none is needed.
 */
import type { IncomingMessage } from 'node:http'
import { Readable } from 'node:stream'
import {
  collectBytes,
  countMembers,
  createBodyHold,
  createPieceCount,
  DETAILS,
  decodeUtf8,
  type Holding,
  JSON_MEDIA_TYPE,
  MAX_BODY_BYTES,
  TOO_MANY_PIECES,
} from '@eaas/protocol'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { ownTurn } from '../../event-loop.js'
import { Refusal } from '../../runner/refusal.js'
import { createStructureCount, type StructureCount } from './body-bounds.js'
import { createPartedJson, type PartedJson } from './streamed-json.js'

/** A longer body takes turns with other calls. */
const WHOLE_BYTES = 131_072
/** A body that may be longer, a batch, is parsed in parts of at most this many bytes: what a single call may send. */
const PART_BYTES = MAX_BODY_BYTES

/** A Content-Encoding that changes nothing. */
const IDENTITY = /^(?:identity)?$/i

/** Makes JSON the only body that is read. */
export function readJsonBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(JSON_MEDIA_TYPE, async (request: FastifyRequest, payload: IncomingMessage) => {
    if (!IDENTITY.test(request.headers['content-encoding'] ?? '')) {
      throw new Refusal('E_MEDIA_TYPE', 'the body must not be compressed: send it without Content-Encoding')
    }
    const { holding, routeOptions } = request
    return (await readBody(payload, { limit: routeOptions.bodyLimit, holding })).parse()
  })
  // The media type of an empty body is ignored: clients send empty bodies in chunks, or as a form without
  // fields.
  app.addContentTypeParser('*', (_: FastifyRequest, payload: IncomingMessage, done: (error: Error | null) => void) => {
    if (payload.errored) return done(payload.errored)
    payload.once('data', () => done(new Refusal('E_MEDIA_TYPE', DETAILS.E_MEDIA_TYPE.body)))
    payload.once('end', () => done(null))
    payload.once('error', done)
  })
}

/** Parses bytes whose structure was counted; none are undefined. @throws Refusal E_MALFORMED_REQUEST */
function parseCounted(body: Uint8Array): unknown {
  if (body.length === 0) return undefined
  try {
    return JSON.parse(decodeUtf8(body))
  } catch {
    throw new Refusal('E_MALFORMED_REQUEST', DETAILS.E_MALFORMED_REQUEST.json)
  }
}

/**
 * Reads a body only for the log: `body` is undefined if it is not JSON, too large, or does not arrive. `replay` returns
 * the bytes for a call that continues after all, and throws if they were not read to the end.
 */
export async function peekBody(
  payload: IncomingMessage,
  bounds: Bounds,
): Promise<{ body: unknown; replay: () => Readable }> {
  let read: Body
  try {
    read = await readBody(payload, bounds)
  } catch (error) {
    return {
      body: undefined,
      replay() {
        throw error
      },
    }
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
  /** most bytes of the body */
  limit: number
  /** null for a call that was not admitted, whose body is not read */
  holding: Holding | null
}

interface Body {
  /** of a body that is read as a whole */
  bytes(): Uint8Array
  /** @throws Refusal E_MALFORMED_REQUEST */
  parse(): unknown
}

/**
 * Reads a body, and gives up as soon as it is too large or has too many values or pieces; the rest is dropped as it
 * arrives. A long body is read one chunk per turn, and parsed in parts if its limit is higher than that of a part.
 */
function readBody(payload: IncomingMessage, { limit, holding }: Bounds): Promise<Body> {
  return new Promise((resolve, reject) => {
    const collected = collectBytes()
    const isOnePieceTooMany = createPieceCount()
    let structure: StructureCount = createStructureCount()
    let parted: PartedJson | undefined
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
      hold(Number(payload.headers?.['content-length'] ?? 0)) // before it is sent: an admitted body arrives whole
    } catch (error) {
      reject(error)
      return
    }
    payload.on('data', read)
    payload.once('end', finish)
    payload.once('error', reject)
  })
}

function assertSize(length: number, limit: number): void {
  if (length > limit) throw new Refusal('E_BODY_TOO_LARGE', DETAILS.E_BODY_TOO_LARGE.body)
}
