/** A worker's channel to the primary process. */
import type { Socket } from 'node:net'
import type { WitnessedHead } from '../audit/watch/head-watches.js'
import type { MetricsOfWorkers } from '../http/metrics.js'
import type { GatheredMetrics, ProcessMetrics } from '../http/summed-metrics.js'
import type { ToPrimary, ToWorker } from './messages.js'

/** How long the primary process may take to gather the metrics of all workers, each of which has two seconds. In milliseconds. */
const GATHER_MS = 2_500
/** How long the first worker may take to confirm what another one witnessed, in milliseconds: then that one keeps it in the checkpoint file. */
const HAND_OVER_MS = 1_000

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
  /** Hands to the first worker what this one witnessed; returns whether the first one knows it. To be called before this one ends. */
  handOver(heads: readonly WitnessedHead[]): Promise<boolean>
  /** Has `take` called with what other workers hand over, until this one is alone: what comes later would miss what it writes last. */
  onHandedOver(take: (heads: readonly WitnessedHead[]) => void): void
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
    beAlone = () => {
      take = undefined
      resolve()
    }
  })
  let take: ((heads: readonly WitnessedHead[]) => void) | undefined
  let endHandOver: (isRemembered: boolean) => void = () => undefined
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
      case 'witnessed':
        take?.(message.heads)
        if (take) send({ kind: 'remembered', from: message.from })
        return
      case 'remembered':
        return endHandOver(true)
    }
  })
  process.on('disconnect', () => {
    beAlone()
    endHandOver(false)
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
    handOver: (heads) =>
      new Promise((resolve) => {
        if (!process.connected) return resolve(false)
        const timer = setTimeout(resolve, HAND_OVER_MS, false)
        endHandOver = (isRemembered) => {
          clearTimeout(timer)
          resolve(isRemembered)
        }
        send({ kind: 'witnessed', heads })
      }),
    onHandedOver(next) {
      take = next
    },
  }
}
