// What the snippets of our pages may use without having made it: a client on some service, and the reader's secrets.
import { format } from 'node:util'
import { createClient } from '../../packages/sdk/src/index.js'

export type Prelude = Awaited<ReturnType<typeof createPrelude>>['globals']

/** A service for one page, with a tenant of its own that has server mode open. */
export interface PageService {
  baseUrl: string
  apiKey: string
  fetch: typeof fetch
}

/** Whatever address the page names, the service answers there. */
export async function createPrelude(service: PageService) {
  const eaas = createClient(service)
  const { id: keyId } = await eaas.keys.create({ name: 'of the prelude' })
  /** Reads a secret from wherever the reader keeps them. */
  const readSecret = async (_name: string) => service.apiKey
  const answer: typeof fetch = (input, init) => {
    const request = new Request(input, init)
    const { pathname, search } = new URL(request.url)
    return service.fetch(new Request(`${service.baseUrl}${pathname}${search}`, request))
  }
  return { globals: { eaas, keyId, readSecret, promised }, fetch: answer }
}

/** `console.log(value) // → text` of a page. */
function promised(expected: string, ...values: unknown[]): void {
  const printed = format(...values)
  if (printed !== expected) throw new Error(`the page promises ${expected}, and ${printed} is printed`)
}
