// A call that is added to the SDK is added to api-calls.ts too, or the tests that go through that list leave
// it out.
import { ROUTES } from '@eaas/protocol'
import { expect, it } from 'vitest'
import { NOT_OF_THE_SDK } from './api-calls.js'
import { calls, connect, service, useEveryCall } from './every-call.js'

/** What the tests of every call leave out: health, which takes no API key, and keys by the hundred. */
const LEFT_OUT = ['getHealth', 'createKeys', ...NOT_OF_THE_SDK]

useEveryCall()

it('is every call of the API that the SDK makes', async () => {
  for (const [, , run] of calls) await run(connect()).catch(() => undefined) // the service lacks keys and routes that some calls need
  const isMade = ({ method, path }: { method: string; path: string }) => {
    const url = new RegExp(`^${path.replace(':id', '[0-9a-f-]{36}').replace(':version', '1')}(\\?|$)`)
    return service.requests.some((request) => request.method === method && url.test(request.url))
  }
  const missing = Object.entries(ROUTES).flatMap(([name, route]) => (isMade(route) ? [] : [name]))
  expect(missing.sort()).toEqual(LEFT_OUT.sort())
})
