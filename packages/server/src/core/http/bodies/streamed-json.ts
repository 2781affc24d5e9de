/**
 * Parses a long JSON body item by item as it arrives, so that no call waits until all of it is parsed. Items are the
 * objects in arrays that are members of the body, such as the operations of a batch. Each is taken out, and replaced by
 * an object with its number. Items and remainder are JSON if and only if the body is.
 */
import { type CollectedBytes, collectBytes, encodeUtf8 } from '@eaas/protocol'
import { Refusal } from '../../runner/refusal.js'
import { createStructureCount, type StructureCount } from './body-bounds.js'

const OPENING_BRACE = 0x7b
const OPENING_BRACKET = 0x5b
const ITEM_DEPTH = 3

export interface PartedJson extends StructureCount {
  /** Returns the whole body. @throws Refusal E_MALFORMED_REQUEST */
  finish(): unknown
}

/** Creates the parser of one body. Neither an item nor the remainder may be longer than `partBytes`. */
export function createPartedJson(parse: (bytes: Uint8Array) => unknown, partBytes: number): PartedJson {
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
    add(bytes) {
      chunk = bytes
      from = 0
      structure.add(bytes)
      ;(item ?? rest).add(chunk.subarray(from))
    },
    members: structure.members,
    finish() {
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
