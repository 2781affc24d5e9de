/** Answers errors of the HTTP parser, which occur before there is a request for the framework. */
import type { Duplex } from 'node:stream'
import { DETAILS, PROBLEM_CONTENT_TYPE, PROBLEMS, type ProblemCode, problemDocument } from '@eaas/protocol'
import { lingerUnparsed } from './delayed-close.js'

const PARSER_ERRORS: Readonly<Record<string, [ProblemCode, string]>> = {
  HPE_HEADER_OVERFLOW: ['E_HEADERS_TOO_LARGE', DETAILS.E_HEADERS_TOO_LARGE.headers],
  ERR_HTTP_REQUEST_TIMEOUT: ['E_REQUEST_TIMEOUT', DETAILS.E_REQUEST_TIMEOUT.request],
}

/** Finds what is wrong with bytes that are not a request; undefined if the connection broke. */
export function findParserProblem({ code = '' }: NodeJS.ErrnoException): [ProblemCode, string] | undefined {
  const known = PARSER_ERRORS[code]
  if (known) return known
  return code.startsWith('HPE_') ? ['E_MALFORMED_REQUEST', 'not a valid HTTP request'] : undefined
}

/** Answers on the bare socket after the HTTP parser has failed, and closes it. */
export function sendParserError(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (socket.writableEnded) return // already answered: Node reports each further piece of what it could not parse
  const problem = findParserProblem(error)
  if (!problem || !socket.writable) {
    socket.destroy()
    return
  }
  const { status, title } = PROBLEMS[problem[0]]
  const body = JSON.stringify(problemDocument(...problem))
  socket.end(
    `HTTP/1.1 ${status} ${title}\r\ncontent-type: ${PROBLEM_CONTENT_TYPE}\r\n` +
      `content-length: ${Buffer.byteLength(body)}\r\nconnection: close\r\n\r\n${body}`,
  )
  lingerUnparsed(socket)
}
