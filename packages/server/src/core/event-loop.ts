/** Turns of the event loop: long work runs in stretches, between which other calls run. */

/** While long work runs, a call waits for about four stretches; a turn costs some microseconds. */
const STRETCH_MS = 0.5

let nextTurn: Promise<void> | undefined

/** Waits for the next turn of the event loop: calls that arrived meanwhile run first. */
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

/** Waits for a turn that no other long work uses, so that other calls wait for one stretch at a time. */
export function ownTurn(): Promise<void> {
  return new Promise((resolve) => {
    if (waiting.push(resolve) === 1) setImmediate(beginNext)
  })
}

function beginNext(): void {
  waiting.shift()?.()
  if (waiting.length > 0) setImmediate(beginNext)
}

/** Long work calls the function between two steps: it returns a turn to wait for if the stretch is over. */
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
