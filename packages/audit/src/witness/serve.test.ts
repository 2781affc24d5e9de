// What a witness answers and logs when something fails.
import { once } from 'node:events'
import type { Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { createLog } from '../node/log.js'
import { LostDirectoryError } from './directory.js'
import { createWitnessServer } from './serve.js'
import { UnwrittenStateError } from './witness.js'

let server: Server | undefined
afterEach(async () => {
  server?.closeAllConnections()
  server?.close()
})

/** A server whose witness does this for each request. */
async function serve(addCheckpoint: () => Promise<string>) {
  const written: string[] = []
  const log = createLog('debug', (line) => written.push(line))
  let ends = 0
  const listening = createWitnessServer({ addCheckpoint }, log, () => {
    ends += 1
  })
  server = listening
  await once(listening.listen(0, '127.0.0.1'), 'listening')
  const { port } = listening.address() as AddressInfo
  const url = `http://127.0.0.1:${port}/add-checkpoint`
  const post = async () => {
    const answer = await fetch(url, { method: 'POST', body: 'a body' })
    return { status: answer.status, text: await answer.text() }
  }
  return { post, port, server: listening, lines: () => written.map((line) => JSON.parse(line)), ends: () => ends }
}

/** Sends a body in chunks of one byte; resolves with the status once there is an answer, or 0 if none came. */
function sendInPieces(port: number, pieces: number, { from = '127.0.0.1', isWhole = true } = {}): Promise<number> {
  return new Promise((resolve) => {
    const socket = connect({ port, host: '127.0.0.1', localAddress: from })
    let answer = ''
    socket.on('data', (data) => {
      answer += data
      resolve(Number(answer.slice(9, 12)))
      socket.destroy()
    })
    socket.on('error', () => undefined).on('close', () => resolve(0))
    socket.write('POST /add-checkpoint HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n')
    socket.write(`${'1\r\nx\r\n'.repeat(pieces)}${isWhole ? '0\r\n\r\n' : ''}`)
  })
}

describe('what the body of a request may take', () => {
  const postFrom = (port: number, from: string) => sendInPieces(port, 1, { from })

  it('is at most 16,384 pieces', async () => {
    const { port } = await serve(async () => 'a line')
    expect(await sendInPieces(port, 16_384)).toBe(200)
    expect(await sendInPieces(port, 16_385)).toBe(400)
  })

  it('is a part of the room for one caller, which slow bodies use up, and leaves the others theirs', async () => {
    const { port, server } = await serve(async () => 'a line')
    const arrived: unknown[] = []
    server.on('request', (request) => arrived.push(request))
    const slow = Array.from({ length: 16 }, () => sendInPieces(port, 1, { isWhole: false }))
    await expect.poll(() => arrived.length).toBe(16)
    expect(await postFrom(port, '127.0.0.1')).toBe(503)
    expect(await postFrom(port, '127.0.0.2')).toBe(200)
    server.closeAllConnections()
    expect(await Promise.all(slow)).toEqual(slow.map(() => 0))
    await expect.poll(() => postFrom(port, '127.0.0.1')).toBe(200)
  })

  it('and is kept for a while of a caller whose bodies are cut to pieces', async () => {
    const { port } = await serve(async () => 'a line')
    for (let sent = 0; sent < 16; sent++) expect(await sendInPieces(port, 16_385, { isWhole: false })).toBe(400)
    expect(await postFrom(port, '127.0.0.1')).toBe(503)
    expect(await postFrom(port, '127.0.0.2')).toBe(200)
  })

  it('is all the room that there is, for all callers together', async () => {
    const { port, server } = await serve(async () => 'a line')
    const arrived: unknown[] = []
    server.on('request', (request) => arrived.push(request))
    for (let caller = 1; caller <= 4; caller++)
      for (let sent = 0; sent < 16; sent++) void sendInPieces(port, 1, { from: `127.0.0.${caller}`, isWhole: false })
    await expect.poll(() => arrived.length).toBe(64)
    expect(await postFrom(port, '127.0.0.9')).toBe(503)
  })
})

describe('a witness that fails', () => {
  it('logs that its state could not be written', async () => {
    const { post, lines } = await serve(() => Promise.reject(new UnwrittenStateError(new Error('the disk is full'))))
    expect(await post()).toEqual({ status: 500, text: 'the witness cannot write its state\n' })
    const msg = 'the state could not be written; nothing was cosigned'
    expect(lines()).toEqual([expect.objectContaining({ level: 50, msg, error: 'Error: the disk is full' })])
  })

  it('ends once its directory is lost, and says so at level fatal', async () => {
    const { post, lines, ends } = await serve(() => Promise.reject(new LostDirectoryError('/witness', 'moved')))
    expect(await post()).toEqual({ status: 500, text: 'the witness lost its directory\n' })
    const error = expect.stringMatching(/^The directory \/witness is no longer this witness's: .* local file system/)
    expect(lines()).toEqual([expect.objectContaining({ level: 60, error })])
    expect(ends()).toBe(1)
  })

  it('logs a defect as what it is, with its stack', async () => {
    const { post, lines } = await serve(() => Promise.reject(new TypeError('a defect')))
    expect(await post()).toEqual({ status: 500, text: 'unexpected error\n' })
    const error = expect.stringMatching(/^TypeError: a defect\n\s+at /)
    expect(lines()).toEqual([expect.objectContaining({ level: 50, msg: 'unexpected error', error })])
  })

  it('logs an answer that could not be sent', async () => {
    // @ts-expect-error: no text
    const { post, lines } = await serve(async () => 1)
    await expect(post()).rejects.toThrow()
    expect(lines()).toEqual([expect.objectContaining({ level: 50, msg: 'unexpected error' })])
  })

  it('logs nothing of a connection that ends within its body', async () => {
    const { port, server, lines } = await serve(async () => 'a line')
    const received = once(server, 'request')
    const socket = connect(port, '127.0.0.1')
    socket.write('POST /add-checkpoint HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhalf')
    const [request] = await received
    const closed = new Promise((resolve) => request.once('close', resolve))
    socket.destroy()
    await closed
    await new Promise((resolve) => setImmediate(resolve))
    expect(lines()).toEqual([])
  })
})
