// What a request holds is given back whenever its connection is closed.
import { EventEmitter } from 'node:events'
import { createHeldBytes } from '@eaas/protocol'
import type { FastifyRequest } from 'fastify'
import { expect, it } from 'vitest'
import { beginHolding } from './connections.js'

it.each([true, false])('is given back if the client left, before it begins: %s', (isBefore) => {
  const hold = createHeldBytes<[string, string]>([10, 10, 10], () => new Error('no room'))
  const socket = Object.assign(new EventEmitter(), { destroyed: isBefore })
  const request = { raw: { socket } } as unknown as FastifyRequest
  const holding = hold('tenant', 'API key')
  beginHolding(request, holding)
  holding.take(10)
  if (!isBefore) socket.emit('close')
  expect(() => hold('tenant', 'API key').take(10)).not.toThrow()
})
