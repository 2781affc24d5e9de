// What the snippets of our pages may use without having made it: a client on some service.
import { format } from 'node:util'
import { createClient } from '../../packages/sdk/src/index.js'
import { createTransit } from '../support/openbao/transit.js'

export type Prelude = Awaited<ReturnType<typeof createPrelude>>['globals']

/** A service for one page, with a tenant of its own that has server mode open. */
export interface PageService {
  baseUrl: string
  apiKey: string
  fetch: typeof fetch
}

/** Where the pages have a transit engine. */
const VAULT = 'vault.example.org'

/** Whatever address the page names, the service answers there, except for that of a transit engine. */
export async function createPrelude(service: PageService) {
  const eaas = createClient(service)
  const { id: keyId } = await eaas.keys.create({ name: 'of the prelude' })
  const transit = createTransit()
  const answer: typeof fetch = async (input, init) => {
    const request = new Request(input, init)
    const { hostname, pathname, search } = new URL(request.url)
    if (hostname === VAULT) {
      const { status, body } = await transit.post(pathname, await request.text())
      return Response.json(body, { status })
    }
    return service.fetch(new Request(`${service.baseUrl}${pathname}${search}`, request))
  }
  return { globals: { eaas, keyId, promised }, fetch: answer }
}

/** `console.log(value) // → text` of a page. */
function promised(expected: string, ...values: unknown[]): void {
  const printed = format(...values)
  if (printed !== expected) throw new Error(`the page promises ${expected}, and ${printed} is printed`)
}
