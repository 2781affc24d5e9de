// A command that follows a log, and the collector that it delivers to.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'

export interface Line {
  tenant_id: string
  id: number
  action: string
}

/** Starts a follower, by the arguments of Node. It is killed after the test. */
export function startFollower(args: readonly string[], environment: Record<string, string>) {
  const child = spawn(process.execPath, args, {
    env: { PATH: process.env.PATH ?? '', ...environment },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  let text = ''
  let errors = ''
  child.stderr.setEncoding('utf8').on('data', (more: string) => {
    errors += more
  })
  child.stdout.setEncoding('utf8').on('data', (more: string) => {
    text += more
  })
  return {
    child,
    entries: () =>
      text
        .split('\n')
        .slice(0, -1) // the text after the last line feed has not fully arrived
        .map((line) => JSON.parse(line) as Line),
    text: () => text,
    errors: () => errors,
    async until(isThere: () => boolean) {
      while (!isThere()) await once(child.stdout, 'data')
    },
  }
}

/** Ends a follower as a service manager does; returns its exit code. */
export async function stopFollower({ child }: { child: ChildProcess }): Promise<number | null> {
  child.kill('SIGTERM')
  return (await once(child, 'close'))[0]
}

/** The ids from 1 on. */
export function upTo(last: number): number[] {
  return Array.from({ length: last }, (_, at) => at + 1)
}

/** Starts a collector that handles one request with each handler, in order, and answers all others with 204. */
export async function startCollector(...handlers: RequestListener[]) {
  const taken: Line[] = []
  let requests = 0
  const http = createServer((request, response) => {
    const handler = handlers[requests++]
    if (handler) return handler(request, response)
    let body = ''
    request.setEncoding('utf8').on('data', (more: string) => {
      body += more
    })
    request.on('end', () => {
      for (const line of body.split('\n').slice(0, -1)) taken.push(JSON.parse(line))
      response.writeHead(204).end()
    })
  }).listen(0, '127.0.0.1')
  await once(http, 'listening')
  onTestFinished(() => {
    http.closeAllConnections()
    http.close()
  })
  return {
    url: `http://127.0.0.1:${(http.address() as AddressInfo).port}/in`,
    taken,
    requests: () => requests,
    idsOf: (tenant_id: string) => taken.filter((line) => line.tenant_id === tenant_id).map(({ id }) => id),
  }
}
