/** `eaas worker`: one of the processes that `eaas start` runs with EAAS_WORKERS. It serves the connections that the primary process passes on. */
import type { Socket } from 'node:net'
import type { Command } from 'commander'
import { ConfigError, readConfig } from '../config.js'
import { outliveOutput } from '../logger.js'
import type { Server } from '../server.js'
import { openChannel } from '../workers/channel.js'
import { readPositive } from './command.js'
import { greet } from './greeting.js'
import { openVerifier } from './open-verifier.js'
import { closeAndExit, STOP_SIGNALS } from './stop.js'

/** Adds `eaas worker`, which only `eaas start` runs. */
export function addWorker(program: Command): void {
  program.command('worker', { hidden: true }).argument('<number>', 'counted from 1', readPositive).action(work)
}

/** Serves until the primary process says otherwise, or has ended; never returns. */
async function work(number: number): Promise<never> {
  outliveOutput()
  // Ctrl-C and some supervisors signal every process of the group. The primary process decides, so that no worker ends before it is told to.
  for (const signal of STOP_SIGNALS) process.on(signal, () => undefined)
  const config = readConfig(process.env)
  let server: Server | undefined
  let adopt: ((socket: Socket, bytes: Uint8Array) => void) | undefined
  let isStopping = false
  let isClosing = false
  let fail: (error: unknown) => void = () => undefined
  const failed = new Promise<never>((_, reject) => {
    fail = reject
  })

  const stop = () => {
    if (!server) process.exit() // it serves nobody yet
    if (isClosing) return
    isClosing = true
    server.beginStopping()
    closeAndExit(server)
  }
  const channel = openChannel({
    workers: config.workers,
    events: {
      onConnection: (socket, bytes) => adopt?.(socket, bytes),
      onServing(url) {
        if (!server) return
        greet(server, config, url).then(() => channel?.send({ kind: 'greeted' }), fail)
      },
      onDrain() {
        isStopping = true
        server?.beginStopping()
      },
      onClose: stop,
      onPrimaryGone() {
        if (isStopping) process.exit(1) // the second signal, which ends everything at once
        stop()
      },
    },
  })
  if (!channel) throw new ConfigError('eaas worker is run by eaas start. Set EAAS_WORKERS, and run: eaas start')

  const { openServer } = await import('../server.js')
  const { adoptConnections } = await import('../http/adopt-connections.js')
  const opened = await openServer({ config, openVerifier, worker: { number, ...channel } })
  await opened.app.ready()
  adopt = adoptConnections(opened.app)
  server = opened
  if (isStopping) opened.beginStopping()
  channel.send({ kind: 'ready' })
  return failed.catch(async (error) => {
    await opened.app.close()
    throw error
  })
}
