/**
 * Finds the tenant that the first request of a connection names, in the head of the request (RFC 9112 section 2.1), without parsing it:
 * the result only chooses a worker, which parses the request as HTTP.
 */

/** The longest head that Node's parser takes; with more bytes than that, waiting for its end is of no use. */
export const MOST_HEAD_BYTES = 16_384
const HEAD_END = '\r\n\r\n'
/** A name without regard to case, as in RFC 9110 section 5.1, and a scheme without regard to case, as in section 11.1. */
const AUTHORIZATION = /\r\nauthorization:[ \t]*bearer eaas_sk_([0-9a-f]{32})_/i

export interface RequestHead {
  /** the id of the tenant, 32 hexadecimal digits; undefined if the head names none */
  tenant: string | undefined
}

/** Reads the first bytes of a connection; undefined while more of them could change the result. */
export function readRequestHead(bytes: Buffer): RequestHead | undefined {
  const text = bytes.toString('latin1', 0, MOST_HEAD_BYTES)
  const end = text.indexOf(HEAD_END)
  if (end !== -1) return { tenant: AUTHORIZATION.exec(text.slice(0, end))?.[1] }
  const isHopeless = !/^[A-Z]/.test(text) || text.length === MOST_HEAD_BYTES // not a method, or longer than a head may be
  return isHopeless ? { tenant: undefined } : undefined
}
