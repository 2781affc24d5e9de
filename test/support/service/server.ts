// Runs the server of `eaas start`, its jobs included, in the test's process: a separate process takes three times the
// CPU time. Tests of what a process does, such as its signals, streams and crashes, and of the first start's tenant
// use `startEaas`.
import type { AddressInfo } from 'node:net'
import { readConfig } from '../../../packages/server/src/core/config.js'
import { openServer, type Server } from '../../../packages/server/src/server.js'
import { type EaasOptions, environmentOf, NO_PURGE } from './eaas-process.js'

export interface RunningServer {
  /** The URL that it listens at now; the port changes with each start. */
  readonly url: string
  /** The lines of its log since it was started. */
  readonly log: string
  /** Starts again on the same data after `stop`; resolves when it listens. */
  start(): Promise<void>
  /** Reloads as at SIGHUP; resolves when the log says what came of it. */
  reload(): Promise<void>
  /** Answers the calls under way and closes, as at SIGTERM; does nothing if it has stopped. */
  stop(): Promise<void>
}

/** Starts a server and resolves when it listens. It creates no tenant. */
export async function startServer({
  environment,
  ...options
}: Pick<EaasOptions, 'database' | 'rootKey' | 'environment'>): Promise<RunningServer> {
  const read = () => readConfig(environmentOf({ ...options, environment: { ...NO_PURGE, ...environment } }))
  const config = read()
  let app: Server['app'] | undefined
  let opened: Server | undefined
  let url = ''
  let log = ''
  const server: RunningServer = {
    get url() {
      return url
    },
    get log() {
      return log
    },
    async start() {
      if (app) throw new Error('the server runs already: stop() it first')
      log = ''
      const write = (line: string) => {
        log += line
      }
      opened = await openServer({ config, log: { write } })
      app = opened.app
      await app.listen({ host: '127.0.0.1', port: 0, listenTextResolver: () => 'listening' })
      url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`
    },
    async reload() {
      await opened?.reload(read)
    },
    async stop() {
      const running = app
      app = undefined
      await running?.close()
    },
  }
  await server.start()
  return server
}
