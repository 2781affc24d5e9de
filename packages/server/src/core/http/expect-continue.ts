/** Tells a client that waits with its body, by `Expect: 100-continue`, to send it. */
import type { RequestListener } from 'node:http'
import type { FastifyInstance } from 'fastify'

type Answer = Parameters<RequestListener>[1]

/**
 * Sends the head of such a request's answer by itself. Until the previous answer on the connection is fully sent, Node
 * queues both the 100 and the answer, and puts a head whose body begins with bytes in front of the queue. The 100 would
 * then be inside the body, and the client would misread every later answer.
 */
export function continueInOrder(app: FastifyInstance): void {
  app.server.on('checkContinue', (request, answer: Answer) => {
    answer.writeContinue()
    const { writeHead } = answer
    answer.writeHead = (...head: unknown[]) => {
      Reflect.apply(writeHead, answer, head)
      answer.flushHeaders()
      return answer
    }
    app.server.emit('request', request, answer)
  })
}
