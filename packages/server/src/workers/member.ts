/** One worker process, as the primary process sees it: what it takes, one connection at a time, and how it ends. */
import { type ChildProcess, fork } from 'node:child_process'
import type { Socket } from 'node:net'
import type { ToPrimary, ToWorker } from './messages.js'

/** How long a worker may take to confirm a connection before others get the connections that wait for it. In milliseconds. */
const HANDOVER_MS = 5_000

/** A connection whose first bytes have been read. */
export interface Connection {
  socket: Socket
  bytes: Uint8Array
  tenant: string | undefined
}

export interface MemberOptions {
  /** counted from 1 */
  number: number
  /** the program with its arguments */
  command: readonly [program: string, ...args: string[]]
  onMessage: (message: ToPrimary) => void
  /** called once, with the connections that it did not take; `code` is null if a signal ended it */
  onEnd: (end: { code: number | null; signal: NodeJS.Signals | null; left: Connection[] }) => void
  /** called with the connections that wait for it when it has stopped taking them */
  onStall: (left: Connection[]) => void
}

export interface Member {
  readonly number: number
  readonly pid: number | undefined
  /** whether it is ready, and connections can be passed to it */
  isAvailable(): boolean
  /** whether it has said that it is ready */
  isReady(): boolean
  /** Passes a connection on; this process closes its own hold on it when the worker has it. */
  pass(connection: Connection): void
  send(message: ToWorker): void
  /** Has it end when the connections that wait for it are passed on; at once if it is not ready. */
  close(): void
  kill(): void
}

/** Starts a worker. Connections are passed on one by one, because Node loses those that it queues itself for a process that then ends. */
export function startMember({ number, command, onMessage, onEnd, onStall }: MemberOptions): Member {
  const [program, ...args] = command
  const child: ChildProcess = fork(program, args, { serialization: 'advanced' })
  let waiting: Connection[] = []
  let passing: { id: number; socket: Socket; timer: NodeJS.Timeout } | undefined
  let isReady = false
  let isStalled = false
  let isClosing = false
  let lastId = 0

  // Without a callback an error would be an event that ends this process. A worker that cannot be reached has ended, or is about to.
  const send = (message: ToWorker, socket?: Socket) => {
    if (child.connected) child.send(message, socket, { keepOpen: true }, () => undefined)
  }

  function passNext(): void {
    if (passing) return
    const next = waiting.shift()
    if (!next) {
      if (isClosing) send({ kind: 'close' })
      return
    }
    const id = ++lastId
    const timer = setTimeout(() => {
      isStalled = true
      letGo()
      const left = waiting
      waiting = []
      onStall(left)
      passNext()
    }, HANDOVER_MS)
    passing = { id, socket: next.socket, timer }
    send({ kind: 'connection', id, bytes: next.bytes }, next.socket)
  }

  function letGo(): void {
    if (!passing) return
    clearTimeout(passing.timer)
    passing.socket.destroy()
    passing = undefined
  }

  child.on('message', (message: ToPrimary) => {
    if (message.kind === 'ready') isReady = true
    if (message.kind === 'taken') {
      isStalled = false
      if (message.id === passing?.id) letGo()
      passNext()
    }
    onMessage(message)
  })
  let isOver = false
  const end = (code: number | null, signal: NodeJS.Signals | null) => {
    if (isOver) return
    isOver = true
    letGo() // it may have begun the call: nobody else may make it again
    const left = waiting
    waiting = []
    onEnd({ code, signal, left })
  }
  child.on('exit', end)
  child.on('error', () => child.pid === undefined && end(1, null)) // it could not be started

  return {
    number,
    pid: child.pid,
    isAvailable: () => isReady && !isStalled && !isClosing,
    isReady: () => isReady,
    pass(connection) {
      waiting.push(connection)
      passNext()
    },
    send: (message) => send(message),
    close() {
      isClosing = true
      if (isReady) passNext()
      else child.kill('SIGKILL') // it serves nobody yet
    },
    kill: () => child.kill('SIGKILL'),
  }
}
