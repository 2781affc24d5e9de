// How a server asks a witness: what it believes of an answer, and how long it waits for one. The witness here
// lies.

import { createSecretKey } from 'node:crypto'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { cosign, readWitnessKey, splitNote } from '@eaas/audit/formats'
import { signingKeyOf } from '@eaas/audit/node'
import { decodeHex } from '@eaas/protocol'
import { afterEach, describe, expect, it } from 'vitest'
import vectors from '../../../../audit/src/formats/cosignature.vectors.json' with { type: 'json' }
import { askWitness } from './witness-client.js'

const [request, other] = vectors.requests
const note = request?.note ?? ''
const [signer, otherSigner] = vectors.sign
const key = readWitnessKey(signer?.key ?? '')
const signingKey = signingKeyOf(createSecretKey(decodeHex(signer?.seed ?? '')))
const line = cosign({ key, signingKey }, splitNote(note).text, 1_790_000_000)

let server: Server | undefined
afterEach(() => {
  server?.closeAllConnections()
  server?.close()
})

async function ask(listener: RequestListener, { timeoutMs = 10_000, proof = [] as string[] } = {}) {
  const listening = createServer(listener)
  server = listening
  await new Promise<void>((resolve) => listening.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(listening.address() as AddressInfo).port}/prefix`
  return askWitness({ key, url }, { old: 7, proof: proof.map(decodeHex), note }, { timeoutMs })
}

const answering =
  (status: number, body: string, type = 'text/plain'): RequestListener =>
  (_, response) =>
    response.writeHead(status, { 'content-type': type }).end(body)

describe('a server that asks a witness', () => {
  it('sends the published request to the prefix, and keeps the line that it verified, and no other', async () => {
    const seen: string[] = []
    const foreign = `${otherSigner?.line}`
    const answer = await ask(
      (incoming, response) => {
        seen.push(`${incoming.method} ${incoming.url}`)
        incoming.setEncoding('utf8').on('data', (text: string) => seen.push(text))
        incoming.on('end', () => response.end(foreign + line))
      },
      { proof: other?.proof ?? [] },
    )
    expect(seen).toEqual(['POST /prefix/add-checkpoint', other?.body])
    expect(answer).toEqual({ kind: 'cosigned', line })
  })

  it.each([
    ['nothing', ''],
    ['a text', 'cosigned\n'],
    ['the cosignature of another note', signer?.line.replace(/.{8}\n$/, 'AAAAAAA=\n') ?? ''],
    ['the cosignature of another witness', otherSigner?.line ?? ''],
    ['a line that is not ended', line.slice(0, -1)],
    ['a line twice the size that it may have', line.padEnd(70_000, 'A')],
  ])('takes %s for a failure', async (_, body) => {
    expect(await ask(answering(200, body))).toMatchObject({ kind: 'failed' })
  })

  it('learns from a 409 the size that the witness cosigned, and from a 422 that the proof did not lead there', async () => {
    expect(await ask(answering(409, '41\n', 'text/x.tlog.size'))).toEqual({ kind: 'conflict', size: 41 })
    expect(await ask(answering(422, 'no\n'))).toEqual({ kind: 'inconsistent' })
  })

  it.each([
    ['41', 'text/x.tlog.size'],
    ['041\n', 'text/x.tlog.size'],
    ['-1\n', 'text/x.tlog.size'],
    ['9007199254740992\n', 'text/x.tlog.size'],
    ['41\n', 'text/plain'],
  ])('takes a 409 with %j of type %s for a failure', async (body, type) => {
    expect(await ask(answering(409, body, type))).toEqual({ kind: 'failed', detail: 'it answered 409' })
  })

  it.each([400, 403, 404, 500, 503])('says what a %i means', async (status) => {
    const { detail } = (await ask(answering(status, 'no\n'))) as { detail: string }
    expect(detail).toContain(`it answered ${status}`)
    expect(detail.includes('public-key --tree')).toBe(status === 403 || status === 404)
  })

  it('follows no redirect', async () => {
    const answer = await ask((incoming, response) => {
      if (incoming.url === '/elsewhere') response.end(line)
      else response.writeHead(307, { location: '/elsewhere' }).end()
    })
    expect(answer).toMatchObject({ kind: 'failed' })
  })

  it('waits no longer than it is told, for the beginning of the answer or for its end', async () => {
    for (const listener of [
      () => undefined,
      (_: unknown, response: Parameters<RequestListener>[1]) => void response.write('—'),
    ]) {
      expect(await ask(listener, { timeoutMs: 50 })).toEqual({ kind: 'failed', detail: 'it did not answer in time' })
      server?.closeAllConnections()
      server?.close()
    }
  })

  it('reads no endless answer', async () => {
    const answer = await ask((_, response) => {
      response.writeHead(200)
      const more = () => {
        while (!response.destroyed && response.write('A'.repeat(16_384)));
      }
      response.on('drain', more)
      more()
    })
    expect(answer).toEqual({ kind: 'failed', detail: 'the answer has more than 65536 bytes' })
  })

  it('says so where nobody listens', async () => {
    const closed = createServer()
    await new Promise<void>((resolve) => closed.listen(0, '127.0.0.1', resolve))
    const { port } = closed.address() as AddressInfo
    await new Promise((resolve) => closed.close(resolve))
    const url = `http://127.0.0.1:${port}`
    const answer = await askWitness({ key, url }, { old: 0, proof: [], note }, { timeoutMs: 5_000 })
    expect(answer).toEqual({ kind: 'failed', detail: 'it could not be asked: ECONNREFUSED' })
  })
})
