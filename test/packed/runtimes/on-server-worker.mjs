// Runs on-server.mjs in workerd: the outcome is what it answers.
import { runOnServer } from './on-server.mjs'

export default {
  async fetch(request) {
    try {
      return Response.json(await runOnServer(await request.json()))
    } catch (error) {
      return new Response(`${error?.stack ?? error}`, { status: 500 })
    }
  },
}
