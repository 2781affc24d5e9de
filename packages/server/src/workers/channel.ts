/** A worker's channel to the primary process. */
import type { Socket } from 'node:net'
import type { MetricsOfWorkers } from '../http/metrics.js'
import type { GatheredMetrics, ProcessMetrics } from '../http/summed-metrics.js'
import type { ToPrimary, ToWorker } from './messages.js'

/** How long the primary process may take to gather the metrics of all workers, each of which has two seconds. In milliseconds. */
const GATHER_MS = 2_500

export interface ChannelEvents {
  onConnection(socket: Socket, bytes: Uint8Array): void
  onServing(url: string): void
  onDrain(): void
  onClose(): void
  /** the primary process has ended, and nobody passes connections on any more */
  onPrimaryGone(): void
}

export interface Channel {
  send(message: ToPrimary): void
  metrics: MetricsOfWorkers
  /** how many workers do not serve, as the primary process last said */
  countMissing(): number
  /** Waits until the primary process says that the other workers have ended, or has itself ended. */
  untilAlone(): Promise<void>
}

/** Opens the channel of this process; undefined if no primary process started it. `workers` is how many there should be. */
export function openChannel({ workers, events }: { workers: number; events: ChannelEvents }): Channel | undefined {
  if (!process.connected) return undefined
  const gathering = new Map<number, (gathered: GatheredMetrics) => void>()
  let collect: (() => Promise<ProcessMetrics>) | undefined
  let lastId = 0
  let missing = 0
  let beAlone: () => void = () => undefined
  const alone = new Promise<void>((resolve) => {
    beAlone = resolve
  })
  // Without a callback an error would be an event that ends this process: it ends in order when the primary has gone.
  const send = (message: ToPrimary) => {
    if (process.connected) process.send?.(message, undefined, {}, () => undefined)
  }

  process.on('message', (message: ToWorker, socket?: Socket) => {
    switch (message.kind) {
      case 'connection':
        send({ kind: 'taken', id: message.id })
        // It is missing if the client had left before it was passed on.
        if (socket) events.onConnection(socket, message.bytes)
        return
      case 'collect':
        void collect?.().then((metrics) => send({ kind: 'own', id: message.id, metrics }))
        return
      case 'gathered':
        return gathering.get(message.id)?.(message.gathered)
      case 'serving':
        return events.onServing(message.url)
      case 'missing':
        missing = message.workers
        return
      case 'drain':
        return events.onDrain()
      case 'close':
        return events.onClose()
      case 'alone':
        return beAlone()
    }
  })
  process.on('disconnect', () => {
    beAlone()
    events.onPrimaryGone()
  })
  return {
    send,
    metrics: {
      onCollect(own) {
        collect = own
      },
      gather(own) {
        const id = ++lastId
        return new Promise((resolve) => {
          const done = (gathered: GatheredMetrics) => {
            clearTimeout(timer)
            gathering.delete(id)
            resolve(gathered)
          }
          const timer = setTimeout(done, GATHER_MS, { metrics: [own], workers, missing: workers - 1, ended: 0 })
          gathering.set(id, done)
          send({ kind: 'gather', id, metrics: own })
        })
      },
    },
    countMissing: () => missing,
    untilAlone: () => alone,
  }
}
