import { Readable, Writable } from 'node:stream'
import { createClient } from '@eaas/sdk'
import { createTestService } from '@eaas/sdk/testing'
import { expect, it } from 'vitest'
import { openKit } from './kit.js'

it('answers each operation of a batch, although it lacks the keys of several', async () => {
  const eaas = createClient(createTestService())
  const { id } = await eaas.keys.create({ name: 'users' })
  const { wrapped_key } = await eaas.encrypt('Ada', { keyId: id })
  const nowhere = new Writable()
  const kit = await openKit(
    {
      env: {},
      folder: '.',
      stdin: Readable.from([Buffer.from(JSON.stringify(await eaas.keys.export(id)))]),
      stdout: nowhere,
      stderr: nowhere,
      signal: new AbortController().signal,
    },
    '-',
  )
  eaas.close()
  const unwrap = (key_id: string) => ({ op: 'unwrap', key_id, wrapped_key })
  const body = JSON.stringify({ operations: [unwrap('one'), unwrap(id), unwrap('two')] })
  const fetch = kit.fetch as unknown as typeof globalThis.fetch
  const answer = await fetch('https://eaas.test/v1/batch', { method: 'POST', body })
  const { results } = (await answer.json()) as { results: { status: number }[] }
  expect(results.map(({ status }) => status)).toEqual([404, 200, 404])
  kit.close()
})
