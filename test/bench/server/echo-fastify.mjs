// The limit that the server is held against: Fastify with a POST route that answers with the body it got. No logger, no hooks.
import Fastify from 'fastify'

const app = Fastify()
app.post('/echo', async (request) => request.body)
console.log(`listening on ${await app.listen({ host: '127.0.0.1', port: 0 })}`)
