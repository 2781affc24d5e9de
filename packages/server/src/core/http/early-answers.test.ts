// How the rest of a refused request is read.
import type { IncomingMessage } from 'node:http'
import { PassThrough } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, expect, it, vi } from 'vitest'
import { linger } from './early-answers.js'

const CHUNK = Buffer.alloc(65_536)
const CHUNKS = 30

afterEach(() => {
  vi.useRealTimers()
})

/** A refused request whose client has sent all of its body. */
function refused() {
  const request = new PassThrough({ highWaterMark: CHUNKS * CHUNK.length })
  const socket = new PassThrough()
  linger(Object.assign(request, { socket }) as unknown as IncomingMessage)
  for (let sent = 0; sent < CHUNKS; sent++) request.write(CHUNK)
  request.end()
  return Object.assign(request, { socket })
}

it('is read with pauses, since each piece is garbage that is collected while other calls wait, and to its end', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  const requests = [refused(), refused()]
  await turn()
  expect(requests.map(({ readableFlowing }) => readableFlowing)).toEqual([false, false])
  for (let ms = 0; ms < 5_000; ms += 50) {
    vi.advanceTimersByTime(50)
    await turn()
  }
  expect(requests.map(({ readableEnded, socket }) => [readableEnded, socket.destroyed])).toEqual([
    [true, false],
    [true, false],
  ])
})
