/** The workers of a server: starts them, gives each connection to one of them, replaces those that end, and closes all. */
import { createGatherer } from './gather-metrics.js'
import { type Connection, type Member, startMember } from './member.js'
import type { ToPrimary } from './messages.js'
import { WorkerEndedError } from './worker-ended.js'

/** After how long a worker counts as sound, so that its end is the first again. */
const SOUND_MS = 60_000
/** With these pauses, a worker that cannot start has half a minute, in which a database may come back. */
const REPLACEMENT: Replacement = { firstPauseMs: 100, longestPauseMs: 10_000, mostEnds: 10 }
/** How long the first worker waits for the others at the end: they cut off their last calls after five seconds. */
const OTHERS_END_MS = 6_000

/** How a worker that ended is replaced. */
export interface Replacement {
  /** before a worker that ended is replaced, in milliseconds; doubled each time it ends again soon */
  firstPauseMs: number
  longestPauseMs: number
  /** how often in a row a worker may end soon after it was started before the group gives up */
  mostEnds: number
}

export interface GroupOptions {
  size: number
  /** the command that runs the worker with a number, counted from 1 */
  commandOf: (number: number) => readonly [program: string, ...args: string[]]
  /** called once, when a worker ends again and again: whoever runs the server must learn of it, and may start it anew */
  onGiveUp: () => void
  replacement?: Replacement
  log: (level: 'fatal' | 'error' | 'info', details: Record<string, unknown>, message: string) => void
}

export interface Group {
  /** Starts the first worker, which prepares the database, and then the others. @throws WorkerEndedError */
  start(): Promise<void>
  /** Has the first worker create the first tenant, and say where the server is. @throws WorkerEndedError */
  greet(url: string): Promise<void>
  /** Gives a connection to the worker of its tenant; to another one while that one is away. */
  pass(connection: Connection): void
  /** Has every /health turn callers away. */
  drain(): void
  /** Has every worker answer the calls under way and end; resolves to the exit code when all have. */
  close(): Promise<number>
  /** Ends every worker at once. */
  kill(): void
}

export function createGroup({ size, commandOf, onGiveUp, replacement = REPLACEMENT, log }: GroupOptions): Group {
  const members = new Map<number, Member>()
  const gatherer = createGatherer({ workers: size, members: () => [...members.values()] })
  /** how often in a row each worker ended soon */
  const ends = new Map<number, number>()
  let missing = size
  let isStarting = true
  let isStopping = false
  let turn = 0
  /** what `start` and `greet` wait for, by the number of the worker */
  const awaited = new Map<string, { resolve: () => void; reject: (error: Error) => void }>()
  let onAllEnded: (() => void) | undefined
  let startFailure: WorkerEndedError | undefined
  let exitCode = 0

  function until(kind: 'ready' | 'greeted', number: number): Promise<void> {
    if (startFailure) throw startFailure
    return new Promise((resolve, reject) => awaited.set(`${kind} ${number}`, { resolve, reject }))
  }

  function failStart(error: WorkerEndedError): void {
    startFailure ??= error
    for (const { reject } of awaited.values()) reject(error)
  }

  function launch(number: number): void {
    const startedAt = performance.now()
    const member: Member = startMember({
      number,
      command: commandOf(number),
      onMessage: (message) => answer(member, message),
      onStall: (left) => {
        log('error', { worker: number }, 'a worker takes no connections; the others get them until it does')
        tellMissing()
        for (const connection of left) pass(connection)
      },
      onEnd({ code, signal, left }) {
        members.delete(number)
        gatherer.onEnd(member, !isStopping)
        if (isStopping && member.isReady() && code !== 0) exitCode = 1
        tellMissing()
        if (isStarting) failStart(new WorkerEndedError(number, code, signal))
        for (const connection of left) pass(connection)
        if (isStopping) onOneEnded()
        else if (!isStarting) replace(number, { code, signal, lifeMs: performance.now() - startedAt })
      },
    })
    members.set(number, member)
  }

  function answer(member: Member, message: ToPrimary): void {
    if (message.kind === 'ready' || message.kind === 'taken') tellMissing()
    if (message.kind === 'ready' || message.kind === 'greeted')
      awaited.get(`${message.kind} ${member.number}`)?.resolve()
    else if (message.kind === 'witnessed')
      members.get(1)?.send({ kind: 'witnessed', from: member.number, heads: message.heads })
    else if (message.kind === 'remembered') members.get(message.from)?.send({ kind: 'remembered' })
    else if (message.kind === 'own') gatherer.onOwn(member, message.id, message.metrics)
    else if (message.kind === 'gather') {
      const { id } = message
      void gatherer.gather(member, message.metrics).then((gathered) => member.send({ kind: 'gathered', id, gathered }))
    }
  }

  function replace(
    number: number,
    { code, signal, lifeMs }: { code: number | null; signal: NodeJS.Signals | null; lifeMs: number },
  ): void {
    const { firstPauseMs, longestPauseMs, mostEnds } = replacement
    const before = lifeMs > SOUND_MS ? 0 : (ends.get(number) ?? 0)
    ends.set(number, before + 1)
    if (before + 1 === mostEnds) {
      log('fatal', { worker: number, code, signal, ends: mostEnds }, 'a worker ends again and again; the server stops')
      exitCode = 1
      onGiveUp()
      return
    }
    const pause = Math.min(firstPauseMs * 2 ** before, longestPauseMs)
    log('error', { worker: number, code, signal, replaced_in_ms: pause }, 'a worker ended; it is replaced')
    setTimeout(() => {
      if (!isStopping) launch(number)
    }, pause)
  }

  // Every worker can be the one that answers /health.
  function tellMissing(): void {
    const serving = [...members.values()].filter((member) => member.isAvailable()).length
    if (missing === size - serving) return
    missing = size - serving
    for (const member of members.values()) member.send({ kind: 'missing', workers: missing })
  }

  function pass(connection: Connection): void {
    const { tenant } = connection
    // The id of a tenant is random, and so are its last digits.
    const home = tenant === undefined ? turn++ : Number.parseInt(tenant.slice(-8), 16)
    for (let next = 0; next < size; next++) {
      const member = members.get(((home + next) % size) + 1)
      if (!member?.isAvailable()) continue
      member.pass(connection)
      return
    }
    connection.socket.destroy() // as if nobody listened
  }

  // What the first worker writes last, the end of each log and of the installation's, is to cover what the others wrote.
  function onOneEnded(): void {
    const [first] = members.size === 1 ? [members.get(1)] : []
    first?.send({ kind: 'alone' })
    if (members.size === 0) onAllEnded?.()
  }

  return {
    async start() {
      launch(1)
      await until('ready', 1)
      const others = Array.from({ length: size - 1 }, (_, at) => at + 2)
      await Promise.all(
        others.map((number) => {
          launch(number)
          return until('ready', number)
        }),
      )
    },
    async greet(url) {
      const greeted = until('greeted', 1)
      members.get(1)?.send({ kind: 'serving', url })
      await greeted
      awaited.clear()
      isStarting = false
    },
    pass,
    drain() {
      isStopping = true
      for (const member of members.values()) member.send({ kind: 'drain' })
    },
    async close() {
      isStopping = true
      if (members.size === 0) return 1 // they ended during the drain
      const allEnded = new Promise<void>((resolve) => {
        onAllEnded = resolve
      })
      for (const member of members.values()) member.close()
      setTimeout(() => members.get(1)?.send({ kind: 'alone' }), OTHERS_END_MS).unref()
      onOneEnded() // perhaps the first is the only one left
      await allEnded
      return exitCode
    },
    kill() {
      for (const member of members.values()) member.kill()
    },
  }
}
