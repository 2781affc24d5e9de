/** Keeps long work from delaying calls: it runs in stretches between turns of the event loop, or in a thread of its own. */
import { parentPort, Worker, workerData } from 'node:worker_threads'

/** During long work, a call waits for about four stretches; a turn costs some microseconds. */
const STRETCH_MS = 0.5

let nextTurn: Promise<void> | undefined

/** Waits for the next turn of the event loop; calls that arrived in the meantime run first. */
export function turn(): Promise<void> {
  nextTurn ??= new Promise((resolve) =>
    setImmediate(() => {
      nextTurn = undefined
      resolve()
    }),
  )
  return nextTurn
}

const waiting: (() => void)[] = []

/** Waits for a turn that no other long work uses, so that other calls wait for only one stretch at a time. */
export function ownTurn(): Promise<void> {
  return new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(beginNext)
  })
}

function beginNext(): void {
  waiting.shift()?.()
  if (waiting.length > 0) setImmediate(beginNext)
}

/** Long work calls the returned function between steps; if the stretch is over, that returns a turn to wait for. */
export function createStretches(): () => Promise<void> | undefined {
  let from = performance.now()
  return () => {
    if (performance.now() - from < STRETCH_MS) return undefined
    return ownTurn().then(() => {
      from = performance.now()
    })
  }
}

export async function mapInStretches<Item, Result>(
  items: Iterable<Item>,
  step: (item: Item) => Result,
): Promise<Awaited<Result>[]> {
  const pause = createStretches()
  const results: Awaited<Result>[] = []
  for (const item of items) {
    const due = pause()
    if (due) await due
    const result = step(item)
    results.push(result instanceof Promise ? await result : (result as Awaited<Result>))
  }
  return results
}

/** After this long without a task, the thread ends, because it holds some 20 MB. */
const IDLE_MS = 60_000

type ToThread<Task> = { kind: 'run'; id: number; task: Task } | { kind: 'abort'; id: number }
type FromThread<Answer, Note> =
  | { kind: 'note'; id: number; note: Note }
  | { kind: 'done'; id: number; answer: Answer }
  | { kind: 'failed'; id: number; failure: ThreadFailure }

/** An error in a form that keeps its class and code when it passes between threads. */
type ThreadFailure = { name: string; message: string; stack: string | undefined; code: unknown }

type RunOptions<Note> = { signal?: AbortSignal | undefined; onNote?: (note: Note) => void }

export interface TaskThread<Task, Answer, Note = never> {
  /** A task holds only what a message can carry. Keys pass as handles, since threads share this process's memory. */
  run(task: Task, options?: RunOptions<Note>): Promise<Answer>
  close(): Promise<void>
}

/** `program` is compiled, gets `data`, and starts with the first task. `revive` makes an error from a task's failure. */
export function createTaskThread<Task, Answer, Note = never>(
  program: URL,
  { data, revive = reviveError }: { data?: unknown; revive?: (failure: ThreadFailure) => Error } = {},
): TaskThread<Task, Answer, Note> {
  type Running = RunOptions<Note> & { resolve: (answer: Answer) => void; reject: (error: unknown) => void }
  const running = new Map<number, Running>()
  let thread: Worker | undefined
  let idle: NodeJS.Timeout | undefined
  let lastId = 0

  function start(): Worker {
    const started = new Worker(program, { workerData: data })
    started.unref()
    started.on('message', receive)
    const end = (error: unknown) => {
      if (thread === started) forget(error)
    }
    started.on('error', end)
    started.on('exit', (code) => end(new Error(`the thread of ${program.pathname} ended with code ${code}`)))
    return started
  }

  // When a thread ends, its tasks fail; the next task starts another thread.
  function forget(error: unknown): void {
    thread = undefined
    for (const { reject } of running.values()) reject(error)
    running.clear()
  }

  function receive(message: FromThread<Answer, Note>): void {
    const run = running.get(message.id)
    if (!run) return
    if (message.kind === 'note') return void run.onNote?.(message.note)
    running.delete(message.id)
    if (running.size === 0) idle = setTimeout(() => void close(), IDLE_MS).unref()
    if (message.kind === 'done') run.resolve(message.answer)
    else run.reject(run.signal?.aborted ? run.signal.reason : revive(message.failure))
  }

  async function close(): Promise<void> {
    clearTimeout(idle)
    const ending = thread
    forget(new Error('the server is stopping'))
    await ending?.terminate()
  }

  return {
    async run(task, options = {}) {
      const { signal } = options
      signal?.throwIfAborted()
      clearTimeout(idle)
      thread ??= start()
      const [id, port] = [++lastId, thread]
      const abort = () => port.postMessage({ kind: 'abort', id } satisfies ToThread<Task>)
      signal?.addEventListener('abort', abort, { once: true })
      try {
        return await new Promise((resolve, reject) => {
          running.set(id, { ...options, resolve, reject })
          port.postMessage({ kind: 'run', id, task } satisfies ToThread<Task>)
        })
      } finally {
        signal?.removeEventListener('abort', abort)
      }
    },
    close,
  }
}

export function reviveError({ name, message, stack, code }: ThreadFailure, error = new Error(message)): Error {
  return Object.assign(error, { name, ...(stack !== undefined && { stack }), ...(code !== undefined && { code }) })
}

/** Makes the program of a thread run its tasks; returns the thread's `data`. */
export function serveTasks<Task, Answer, Note = never>(
  run: (task: Task, inThread: { signal: AbortSignal; note: (note: Note) => void }) => Answer | Promise<Answer>,
): unknown {
  const running = new Map<number, AbortController>()
  const send = (message: FromThread<Answer, Note>) => parentPort?.postMessage(message)
  parentPort?.on('message', async (message: ToThread<Task>) => {
    const { id } = message
    if (message.kind === 'abort') return running.get(id)?.abort()
    const gone = new AbortController()
    running.set(id, gone)
    try {
      const note = (said: Note) => send({ kind: 'note', id, note: said })
      send({ kind: 'done', id, answer: await run(message.task, { signal: gone.signal, note }) })
    } catch (error) {
      send({ kind: 'failed', id, failure: describe(error) })
    } finally {
      running.delete(id)
    }
  })
  return workerData
}

function describe(error: unknown): ThreadFailure {
  if (!(error instanceof Error)) return { name: 'Error', message: String(error), stack: undefined, code: undefined }
  const { name, message, stack } = error
  return { name, message, stack, code: 'code' in error ? error.code : undefined }
}
