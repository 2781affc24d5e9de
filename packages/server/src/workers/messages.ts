/** What the primary process and its workers tell each other over their channel. */
import type { WitnessedHead } from '../audit/watch/head-watches.js'
import type { GatheredMetrics, ProcessMetrics } from '../http/summed-metrics.js'

export type ToWorker =
  /** takes over the connection that comes with the message; `bytes` of it have been read */
  | { kind: 'connection'; id: number; bytes: Uint8Array }
  /** the port is open: the first worker of a start creates the first tenant and says where the server is */
  | { kind: 'serving'; url: string }
  /** asks for the worker's own metrics */
  | { kind: 'collect'; id: number }
  /** answers `gather` */
  | { kind: 'gathered'; id: number; gathered: GatheredMetrics }
  /** so many workers do not serve: sent when that changes */
  | { kind: 'missing'; workers: number }
  /** turn callers away at /health, and serve on */
  | { kind: 'drain' }
  /** answer the calls under way, and end */
  | { kind: 'close' }
  /** the other workers have ended: what the first one writes last covers what they wrote */
  | { kind: 'alone' }
  /** to the first worker: what the worker `from` witnessed, which ends */
  | { kind: 'witnessed'; from: number; heads: readonly WitnessedHead[] }
  /** answers `witnessed`: the first worker knows it now */
  | { kind: 'remembered' }

export type ToPrimary =
  /** connections can be passed on */
  | { kind: 'ready' }
  /** what follows `serving` is done */
  | { kind: 'greeted' }
  /** the connection has arrived */
  | { kind: 'taken'; id: number }
  /** answers `collect` */
  | { kind: 'own'; id: number; metrics: ProcessMetrics }
  /** asks for the metrics of all workers; with the worker's own */
  | { kind: 'gather'; id: number; metrics: ProcessMetrics }
  /** what the worker witnessed, before it ends: for the first worker */
  | { kind: 'witnessed'; heads: readonly WitnessedHead[] }
  /** the first worker knows what the worker `from` witnessed */
  | { kind: 'remembered'; from: number }
