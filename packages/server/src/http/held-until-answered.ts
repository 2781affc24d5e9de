/** What a request holds in memory, given back when its answer is sent or its connection is closed. */
import type { Socket } from 'node:net'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { Holding } from '../runner/held-bytes.js'

declare module 'fastify' {
  interface FastifyRequest {
    /** of an admitted call: what its body and its answer hold */
    holding: Holding | null
  }
}

/**
 * By connection. Of requests that a client pipelined Node closes no answer but the first when their
 * connection is closed.
 */
const underWay = new WeakMap<Socket, Set<Holding>>()

/** Gives back what requests hold. */
export function endHoldings(app: FastifyInstance): void {
  app.decorateRequest('holding', null)
  app.addHook('onResponse', ({ raw: { socket }, holding }, _, done) => {
    holding?.end()
    if (holding) underWay.get(socket)?.delete(holding)
    done()
  })
}

/** Has a request hold memory from now on. */
export function beginHolding(request: FastifyRequest, holding: Holding): void {
  const { socket } = request.raw
  request.holding = holding
  if (socket.destroyed) {
    holding.end() // the client left while it was admitted, and no event tells of it any more
    return
  }
  const known = underWay.get(socket)
  if (known) {
    known.add(holding)
    return
  }
  const holdings = new Set([holding])
  underWay.set(socket, holdings)
  socket.once('close', () => {
    for (const one of holdings) one.end()
  })
}
