/** JSON bodies, read strictly: UTF-8 or nothing, a limited depth, an empty body where none is needed. */
import { decodeUtf8 } from '@eaas/protocol'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Refusal } from '../operations/refusal.js'

/** No body of the API is deeper than 4. */
const MAX_DEPTH = 32
const JSON_MEDIA_TYPE = /^application\/json\s*(?:;\s*charset\s*=\s*"?utf-8"?\s*)?$/i

/** Makes JSON the only body that is read. */
export function readJsonBodies(app: FastifyInstance): void {
  app.removeAllContentTypeParsers()
  app.addContentTypeParser(JSON_MEDIA_TYPE, { parseAs: 'buffer' }, async (_: FastifyRequest, body: Buffer) =>
    parseJson(body),
  )
}

/** Parses a body; an empty one is undefined. Of a member that stands twice, the last counts. @throws Refusal E_MALFORMED_REQUEST */
export function parseJson(body: Uint8Array): unknown {
  if (body.length === 0) return undefined
  let value: unknown
  try {
    value = JSON.parse(decodeUtf8(body))
  } catch {
    throw new Refusal('E_MALFORMED_REQUEST', 'the body is not valid JSON in UTF-8')
  }
  if (isDeeper(value, MAX_DEPTH))
    throw new Refusal('E_MALFORMED_REQUEST', `the body is nested deeper than ${MAX_DEPTH}`)
  return value
}

/** Whether arrays and objects stand in the value, one in the other, more than so many levels deep. */
function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return levels === 0 || Object.values(value).some((child) => isDeeper(child, levels - 1))
}
