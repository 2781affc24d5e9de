// A balancer of connections, not calls (L4): round robin over the servers whose /health answers 200, checked at an interval,
// without retries. haproxy in TCP mode does the same in the slow suite.
import { type AddressInfo, connect, createServer } from 'node:net'

export interface Balancer {
  url: string
  close(): void
}

const CHECK_TIMEOUT_MS = 1_000

/** Starts a balancer over servers at these URLs. It adds or removes a server after two checks that agree. */
export async function startTcpBalancer(servers: readonly string[], checkEveryMs: number): Promise<Balancer> {
  const states = servers.map((url) => ({ url: new URL(url), isUp: true, against: 0 }))
  let next = 0
  const server = createServer((client) => {
    const up = states.filter(({ isUp }) => isUp)
    const target = up[next++ % Math.max(1, up.length)]
    if (!target) return client.destroy()
    const through = connect(Number(target.url.port), target.url.hostname)
    client.pipe(through).pipe(client)
    for (const [socket, other] of [
      [client, through],
      [through, client],
    ] as const) {
      socket.setNoDelay(true)
      socket.on('error', () => other.destroy())
      socket.on('close', () => other.destroySoon())
    }
  })
  const checks = setInterval(() => {
    for (const state of states) {
      fetch(new URL('/health', state.url), { signal: AbortSignal.timeout(CHECK_TIMEOUT_MS) })
        .then(
          ({ status }) => status === 200,
          () => false,
        )
        .then((isWell) => {
          state.against = isWell === state.isUp ? 0 : state.against + 1
          if (state.against < 2) return
          state.isUp = isWell
          state.against = 0
        })
    }
  }, checkEveryMs)
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close() {
      clearInterval(checks)
      server.close()
    },
  }
}
