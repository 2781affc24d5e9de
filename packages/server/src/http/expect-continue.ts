/** Tells a client that waits with its body, by `Expect: 100-continue`, to send it. */
import type { RequestListener } from 'node:http'
import type { FastifyInstance } from 'fastify'

type Answer = Parameters<RequestListener>[1]

/**
 * Has the head of such a request's answer sent by itself. While the answer before it on the connection is not
 * sent whole, Node queues both the 100 and the answer, and puts a head whose body begins with bytes in front of
 * the queue: the 100 would then stand within the body, and its client would read every later answer wrongly.
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
